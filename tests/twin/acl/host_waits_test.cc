// TWIN_HOST_WAITS: what a process waited for on the host, written when it ends. Each case is a process of its
// own.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>

#include "tests/twin/acl/acl_test.h"

namespace twin {
namespace {

// The file that a child process with the variable leaves. The test itself never calls ACL.
std::string CountedBy(const std::string& path, const std::function<void()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("TWIN_HOST_WAITS", path.c_str(), 1);
    if (aclInit(nullptr) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS) _exit(1);
    work();
    std::exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class HostWaitsTest : public ::testing::Test {
 protected:
  const std::string path_ = ::testing::TempDir() + "host_waits_" + std::to_string(getpid());
  void SetUp() override { unlink(path_.c_str()); }
  void TearDown() override { unlink(path_.c_str()); }
};

void ExpectCount(const std::string& line, const std::string& what, int count) {
  const std::string entry = "\"" + what + "\": " + std::to_string(count);
  EXPECT_NE(line.find(entry), std::string::npos) << entry << " in " << line;
}

TEST_F(HostWaitsTest, SynchronisationsAndCopiesAreCounted) {
  const std::string line = CountedBy(path_, [] {
    aclrtStream stream = nullptr;
    void *device = nullptr, *pinned = nullptr;
    char host[64] = {};
    aclrtCreateStream(&stream);
    aclrtMalloc(&device, sizeof host, ACL_MEM_MALLOC_NORMAL_ONLY);
    aclrtMallocHost(&pinned, sizeof host);
    for (int i = 0; i < 3; ++i) aclrtSynchronizeStream(stream);
    aclrtSynchronizeDevice();
    aclrtMemcpy(host, sizeof host, device, sizeof host, ACL_MEMCPY_DEVICE_TO_HOST);
    // From pageable memory, then from and to pinned.
    aclrtMemcpyAsync(device, sizeof host, host, sizeof host, ACL_MEMCPY_HOST_TO_DEVICE, stream);
    aclrtMemcpyAsync(device, sizeof host, pinned, sizeof host, ACL_MEMCPY_HOST_TO_DEVICE, stream);
    aclrtMemcpyAsync(pinned, sizeof host, device, sizeof host, ACL_MEMCPY_DEVICE_TO_HOST, stream);
    aclrtSynchronizeStreamWithTimeout(stream, 60000);
  });
  ExpectCount(line, "aclrtSynchronizeStream", 3);
  ExpectCount(line, "aclrtSynchronizeDevice", 1);
  ExpectCount(line, "aclrtSynchronizeStreamWithTimeout", 1);
  ExpectCount(line, "aclrtMemcpy to host", 1);
  ExpectCount(line, "aclrtMemcpyAsync from host", 1);
  EXPECT_EQ(line.find("aclrtMemcpyAsync to host"), std::string::npos) << "pinned copies do not wait: " << line;
}

TEST_F(HostWaitsTest, AWaitThatTimesOutGoesOnInTheNextCall) {
  const std::string line = CountedBy(path_, [] {
    aclrtStream stream = nullptr;
    aclrtCreateStream(&stream);
    Gate gate;
    gate.Block(stream);
    for (int i = 0; i < 3; ++i) aclrtSynchronizeStreamWithTimeout(stream, 1);
    gate.Open();
    aclrtSynchronizeStreamWithTimeout(stream, 60000);
  });
  ExpectCount(line, "aclrtSynchronizeStreamWithTimeout", 1);
}

TEST_F(HostWaitsTest, AWaitForACompleteEventIsNone) {
  const std::string line = CountedBy(path_, [] {
    aclrtStream stream = nullptr;
    aclrtEvent event = nullptr;
    aclrtCreateStream(&stream);
    aclrtCreateEvent(&event);
    aclrtRecordEvent(event, stream);
    aclrtSynchronizeStream(stream);
    aclrtSynchronizeEvent(event);
  });
  ExpectCount(line, "aclrtSynchronizeStream", 1);
  EXPECT_EQ(line.find("aclrtSynchronizeEvent"), std::string::npos) << line;
}

}  // namespace
}  // namespace twin
