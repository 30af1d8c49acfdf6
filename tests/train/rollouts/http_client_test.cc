// Addresses of servers. What they answer is asked of real ones in tests/scripts/rl_sources_test and rl_outside_test.
#include "train/rollouts/http_client.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace trireme {
namespace {

void ExpectAddress(const std::string& address, const std::string& host, const std::string& port, const std::string& path) {
  const HttpTarget found = ParseHttpTarget(address, "rl.rewards");
  EXPECT_EQ(found.host, host) << address;
  EXPECT_EQ(found.port, port) << address;
  EXPECT_EQ(found.path, path) << address;
}

TEST(HttpTargetTest, IsTakenApart) {
  ExpectAddress("http://rewards:8001/score/all?x=1", "rewards", "8001", "/score/all?x=1");
  ExpectAddress("http://10.0.0.1", "10.0.0.1", "80", "/");
  ExpectAddress("http://[::1]:90/", "::1", "90", "/");
  ExpectAddress("http://[fe80::2]", "fe80::2", "80", "/");
}

TEST(HttpTargetTest, IsRefused) {
  for (const char* address : {"https://rewards/", "http://", "http://:80/", "http://rewards:/", "http://rewards:8o/", "ftp://rewards/",
                              "http://rewards/a b", "http://rewards/\r\nHost: other"}) {
    EXPECT_THROW(ParseHttpTarget(address, "rl.rewards"), Error) << address;
  }
}

}  // namespace
}  // namespace trireme
