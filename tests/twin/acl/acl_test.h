// What the tests of the twin's ACL share: a process that has called aclInit, a thread that has device 0, and
// a check that an invalid call is refused with the right code and a message that says what was wrong.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "acl/acl.h"
#include "twin/acl/internal.h"

namespace twin {

// The messages of the calling thread's failed calls so far; empty if there are none.
inline std::string RecentWords() {
  const char* words = aclGetRecentErrMsg();
  return words == nullptr ? "" : words;
}

#define EXPECT_OK(call)                                                                    \
  do {                                                                                     \
    const aclError result = (call);                                                        \
    EXPECT_EQ(result, ACL_SUCCESS) << #call << ": " << (result == 0 ? "" : RecentWords()); \
  } while (false)

#define ASSERT_OK(call)                                                                    \
  do {                                                                                     \
    const aclError result = (call);                                                        \
    ASSERT_EQ(result, ACL_SUCCESS) << #call << ": " << (result == 0 ? "" : RecentWords()); \
  } while (false)

// `words` must be part of what aclGetRecentErrMsg returns after the call.
#define EXPECT_REFUSED(call, code, words)                                         \
  do {                                                                            \
    RecentWords();                                                                \
    EXPECT_EQ((call), (code)) << #call;                                           \
    const std::string said = RecentWords();                                       \
    EXPECT_NE(said.find(words), std::string::npos) << #call << " said: " << said; \
  } while (false)

class AclTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    static const aclError once = aclInit(nullptr);
    ASSERT_EQ(once, ACL_SUCCESS);
  }
  void SetUp() override { ASSERT_OK(aclrtSetDevice(0)); }
  void TearDown() override { EXPECT_OK(aclrtResetDevice(0)); }
};

// A task that blocks its stream until the test releases it.
class Gate {
 public:
  ~Gate() { Open(); }
  void Open() { open_ = true; }
  bool entered() const { return entered_; }
  void WaitEntered() const {
    while (!entered_) std::this_thread::yield();
  }
  aclError Block(aclrtStream stream) {
    return Enqueue(
        stream,
        [this] {
          entered_ = true;
          while (!open_ && !TaskAborted()) std::this_thread::sleep_for(std::chrono::microseconds(50));
          return ACL_SUCCESS;
        },
        "gate");
  }

 private:
  std::atomic<bool> open_{false};
  std::atomic<bool> entered_{false};
};

}  // namespace twin
