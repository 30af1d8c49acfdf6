// Callbacks on a thread of the program, host functions, and notifies.
#include <pthread.h>

#include <chrono>

#include "tests/twin/acl/acl_test.h"

namespace twin {
namespace {

class CallbackTest : public AclTest {
 protected:
  void SetUp() override {
    AclTest::SetUp();
    ASSERT_OK(aclrtCreateStream(&stream_));
    ASSERT_OK(aclrtCreateStream(&other_));
  }

  aclrtStream stream_ = nullptr;
  aclrtStream other_ = nullptr;
};

struct Seen {
  std::atomic<int> calls{0};
  std::atomic<bool> hold{false};
  std::atomic<pthread_t> thread{};
};

void Count(void* argument) {
  auto* seen = static_cast<Seen*>(argument);
  seen->thread = pthread_self();
  while (seen->hold) std::this_thread::sleep_for(std::chrono::microseconds(100));
  ++seen->calls;
}

// A thread of the program that processes reports until told to stop.
class Processor {
 public:
  Processor()
      : thread_([this] {
          while (!end_) aclrtProcessReport(20);
        }) {}
  ~Processor() {
    end_ = true;
    thread_.join();
  }
  pthread_t id() { return thread_.native_handle(); }

 private:
  std::atomic<bool> end_{false};
  std::thread thread_;
};

TEST_F(CallbackTest, ABlockingCallbackHoldsTheStream) {
  Processor processor;
  ASSERT_OK(aclrtSubscribeReport(processor.id(), stream_));
  Seen seen;
  seen.hold = true;
  std::atomic<int> calls_before_task{-1};
  ASSERT_OK(aclrtLaunchCallback(Count, &seen, ACL_CALLBACK_BLOCK, stream_));
  ASSERT_OK(Enqueue(stream_, [&] { return calls_before_task = seen.calls.load(), ACL_SUCCESS; }, "behind"));
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  seen.hold = false;
  ASSERT_OK(aclrtSynchronizeStream(stream_));
  EXPECT_EQ(calls_before_task, 1);
  EXPECT_TRUE(pthread_equal(seen.thread, processor.id()));
  EXPECT_OK(aclrtUnSubscribeReport(processor.id(), stream_));
}

TEST_F(CallbackTest, ANonBlockingCallbackDoesNot) {
  Processor processor;
  ASSERT_OK(aclrtSubscribeReport(processor.id(), stream_));
  Seen seen;
  seen.hold = true;
  ASSERT_OK(aclrtLaunchCallback(Count, &seen, ACL_CALLBACK_NO_BLOCK, stream_));
  EXPECT_OK(aclrtSynchronizeStreamWithTimeout(stream_, 10000));
  EXPECT_EQ(seen.calls, 0);
  seen.hold = false;
  while (seen.calls == 0) std::this_thread::yield();
  EXPECT_OK(aclrtUnSubscribeReport(processor.id(), stream_));
}

TEST_F(CallbackTest, NeedsASubscription) {
  Seen seen;
  EXPECT_REFUSED(aclrtLaunchCallback(Count, &seen, ACL_CALLBACK_BLOCK, stream_), ACL_ERROR_RT_STREAM_NO_CB_REG,
                 "call aclrtSubscribeReport first");
  EXPECT_REFUSED(aclrtProcessReport(5), ACL_ERROR_RT_THREAD_SUBSCRIBE, "no stream is subscribed to this thread");
  EXPECT_REFUSED(aclrtProcessReport(0), ACL_ERROR_INVALID_PARAM, "timeout is 0");
  ASSERT_OK(aclrtSubscribeReport(pthread_self(), stream_));
  EXPECT_REFUSED(aclrtSubscribeReport(pthread_self(), stream_), ACL_ERROR_RT_STREAM_SUBSCRIBE, "already subscribed");
  EXPECT_REFUSED(aclrtProcessReport(5), ACL_ERROR_RT_REPORT_TIMEOUT, "within 5 ms");
  EXPECT_OK(aclrtUnSubscribeReport(pthread_self(), stream_));
  EXPECT_REFUSED(aclrtUnSubscribeReport(pthread_self(), stream_), ACL_ERROR_RT_STREAM_SUBSCRIBE, "not subscribed");
}

TEST_F(CallbackTest, UnsubscribingFailsABlockedStream) {
  Seen seen;
  ASSERT_OK(aclrtSubscribeReport(pthread_self(), stream_));
  ASSERT_OK(aclrtLaunchCallback(Count, &seen, ACL_CALLBACK_BLOCK, stream_));
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  EXPECT_OK(aclrtUnSubscribeReport(pthread_self(), stream_));
  EXPECT_REFUSED(aclrtSynchronizeStream(stream_), ACL_ERROR_RT_STREAM_NO_CB_REG, "was unsubscribed");
  EXPECT_EQ(seen.calls, 0);
}

TEST_F(CallbackTest, HostFunctionsRunInOrderOnAThreadOfTheRuntime) {
  Seen seen;
  int calls_before_task = -1;
  ASSERT_OK(aclrtLaunchHostFunc(stream_, Count, &seen));
  ASSERT_OK(Enqueue(stream_, [&] { return calls_before_task = seen.calls, ACL_SUCCESS; }, "behind"));
  ASSERT_OK(aclrtSynchronizeStream(stream_));
  EXPECT_EQ(calls_before_task, 1);
  EXPECT_FALSE(pthread_equal(seen.thread, pthread_self()));
}

TEST_F(CallbackTest, AStreamCannotUseBothMechanisms) {
  Seen seen;
  ASSERT_OK(aclrtLaunchHostFunc(stream_, Count, &seen));
  EXPECT_REFUSED(aclrtSubscribeReport(pthread_self(), stream_), ACL_ERROR_RT_STREAM_SUBSCRIBE,
                 "cannot use both mechanisms");
  ASSERT_OK(aclrtSubscribeReport(pthread_self(), other_));
  EXPECT_REFUSED(aclrtLaunchHostFunc(other_, Count, &seen), ACL_ERROR_RT_STREAM_SUBSCRIBE,
                 "cannot use both mechanisms");
  EXPECT_OK(aclrtUnSubscribeReport(pthread_self(), other_));
  EXPECT_OK(aclrtSynchronizeStream(stream_));
}

TEST_F(CallbackTest, ANotifyIsWaitedForAndCleared) {
  aclrtNotify notify = nullptr;
  ASSERT_OK(aclrtCreateNotify(&notify, 0));
  ASSERT_OK(aclrtWaitAndResetNotify(notify, other_, 0));
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(other_, 10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  ASSERT_OK(aclrtRecordNotify(notify, stream_));
  ASSERT_OK(aclrtSynchronizeStream(other_));
  ASSERT_OK(aclrtWaitAndResetNotify(notify, other_, 1));
  EXPECT_REFUSED(aclrtSynchronizeStream(other_), ACL_ERROR_RT_TASK_TIMEOUT, "was not recorded within 1 s");
  EXPECT_OK(aclrtDestroyNotify(notify));
  EXPECT_REFUSED(aclrtRecordNotify(notify, stream_), ACL_ERROR_RT_INVALID_HANDLE, "not a live notify");
}

}  // namespace
}  // namespace twin
