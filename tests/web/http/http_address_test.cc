// Addresses of servers. What they answer is asked of real ones in tests/scripts/rl_sources_test, rl_outside_test and
// hub_test.
#include "web/http/http_address.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace trireme {
namespace {

void ExpectAddress(const std::string& address, const std::string& host, const std::string& port,
                   const std::string& path) {
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
  for (const char* address : {"https://rewards/", "http://", "http://:80/", "http://rewards:/", "http://rewards:8o/",
                              "ftp://rewards/", "http://rewards/a b", "http://rewards/\r\nHost: other"}) {
    EXPECT_THROW(ParseHttpTarget(address, "rl.rewards"), Error) << address;
  }
}

TEST(HttpTargetTest, IsPutTogetherAgain) {
  for (const char* address :
       {"https://hub.example/a?b=c", "http://hub:8080/", "https://[::1]:90/x", "https://hub:80/", "http://hub:443/"}) {
    const auto target = ParseAddress(address);
    ASSERT_TRUE(target) << address;
    EXPECT_EQ(target->text(), address);
  }
  EXPECT_EQ(ParseAddress("https://hub:443/")->text(), "https://hub/");
  EXPECT_EQ(ParseAddress("https://hub?x")->path, "/?x");
  EXPECT_FALSE(ParseAddress("https://user@hub/"));
}

TEST(HttpTargetTest, OfARedirection) {
  const HttpTarget from = *ParseAddress("https://hub:8080/a/b?c");
  EXPECT_EQ(ResolveLocation(from, "/x?y")->text(), "https://hub:8080/x?y");
  EXPECT_EQ(ResolveLocation(from, "http://cdn/x")->text(), "http://cdn/x");
  EXPECT_EQ(ResolveLocation(from, "//cdn/x")->text(), "https://cdn/x");
  for (const char* location : {"", "x", "ftp://cdn/", "file:///etc/passwd", "/a\r\nb"})
    EXPECT_FALSE(ResolveLocation(from, location)) << location;
}

TEST(HttpTargetTest, OriginsDiffer) {
  const HttpTarget hub = *ParseAddress("https://hub/a");
  EXPECT_TRUE(SameOrigin(hub, *ParseAddress("https://HUB:443/b")));
  for (const char* other : {"http://hub/a", "https://hub:444/a", "https://hub.example/a", "http://hub:443/a"}) {
    EXPECT_FALSE(SameOrigin(hub, *ParseAddress(other))) << other;
  }
}

}  // namespace
}  // namespace trireme
