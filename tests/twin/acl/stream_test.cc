// Streams: order, true asynchrony, sticky errors, aborts, and the refusal of invalid handles.
#include <sys/resource.h>

#include <chrono>
#include <vector>

#include "tests/twin/acl/acl_test.h"

namespace twin {
namespace {

using std::chrono::milliseconds;

class StreamTest : public AclTest {
 protected:
  void SetUp() override {
    AclTest::SetUp();
    ASSERT_OK(aclrtCreateStream(&stream_));
    ASSERT_OK(aclrtCreateStream(&other_));
  }

  aclrtStream stream_ = nullptr;
  aclrtStream other_ = nullptr;
};

aclError FailingTask() { return ACL_ERROR_RT_AICORE_EXCEPTION; }

TEST_F(StreamTest, TasksRunInOrderOnTheirOwnThread) {
  std::vector<int> seen;
  const std::thread::id caller = std::this_thread::get_id();
  bool on_caller = false;
  for (int i = 0; i < 2000; ++i) {
    ASSERT_OK(Enqueue(
        stream_,
        [&, i] {
          seen.push_back(i);
          on_caller |= std::this_thread::get_id() == caller;
          return ACL_SUCCESS;
        },
        "count"));
  }
  ASSERT_OK(aclrtSynchronizeStream(stream_));
  ASSERT_EQ(seen.size(), 2000u);
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(seen[i], i);
  EXPECT_FALSE(on_caller);
}

TEST_F(StreamTest, ABlockedTaskDelaysNeitherOtherStreamsNorCallers) {
  Gate gate;
  ASSERT_OK(gate.Block(stream_));
  std::atomic<int> done{0};
  ASSERT_OK(Enqueue(stream_, [&] { return done += 10, ACL_SUCCESS; }, "behind"));
  ASSERT_OK(Enqueue(other_, [&] { return done += 1, ACL_SUCCESS; }, "beside"));
  ASSERT_OK(aclrtSynchronizeStream(other_));
  EXPECT_EQ(done, 1);
  aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
  EXPECT_OK(aclrtStreamQuery(stream_, &status));
  EXPECT_EQ(status, ACL_STREAM_STATUS_NOT_READY);
  EXPECT_OK(aclrtStreamQuery(other_, &status));
  EXPECT_EQ(status, ACL_STREAM_STATUS_COMPLETE);
  gate.Open();
  ASSERT_OK(aclrtSynchronizeStream(stream_));
  EXPECT_EQ(done, 11);
}

TEST_F(StreamTest, TheDefaultStreamIsTheNullHandle) {
  bool ran = false;
  ASSERT_OK(Enqueue(nullptr, [&] { return ran = true, ACL_SUCCESS; }, "default"));
  ASSERT_OK(aclrtSynchronizeStream(nullptr));
  EXPECT_TRUE(ran);
  EXPECT_EQ(StreamDevice(nullptr), 0);
  EXPECT_REFUSED(aclrtDestroyStream(nullptr), ACL_ERROR_INVALID_PARAM, "default stream cannot be destroyed");
}

TEST_F(StreamTest, SynchronizeDeviceWaitsForAllStreams) {
  std::atomic<int> done{0};
  for (aclrtStream stream : {stream_, other_, aclrtStream{nullptr}}) {
    ASSERT_OK(Enqueue(
        stream,
        [&] {
          std::this_thread::sleep_for(milliseconds(5));
          return ++done, ACL_SUCCESS;
        },
        "nap"));
  }
  ASSERT_OK(aclrtSynchronizeDevice());
  EXPECT_EQ(done, 3);
}

TEST_F(StreamTest, AFailureSticksAndDropsLaterTasks) {
  Gate gate;
  bool ran = false;
  ASSERT_OK(gate.Block(stream_));
  ASSERT_OK(Enqueue(stream_, FailingTask, "bad kernel"));
  ASSERT_OK(Enqueue(stream_, [&] { return ran = true, ACL_SUCCESS; }, "behind"));
  gate.Open();
  EXPECT_REFUSED(aclrtSynchronizeStream(stream_), ACL_ERROR_RT_AICORE_EXCEPTION, "bad kernel failed");
  EXPECT_FALSE(ran);
  EXPECT_REFUSED(aclrtSynchronizeStream(stream_), ACL_ERROR_RT_AICORE_EXCEPTION, "bad kernel");
  EXPECT_REFUSED(Enqueue(stream_, FailingTask, "more"), ACL_ERROR_RT_AICORE_EXCEPTION, "bad kernel");
  EXPECT_OK(aclrtSynchronizeStream(other_));
  EXPECT_REFUSED(aclrtSynchronizeDevice(), ACL_ERROR_RT_AICORE_EXCEPTION, "bad kernel");
  EXPECT_OK(aclrtDestroyStream(stream_));
}

TEST_F(StreamTest, ContinueOnFailureRunsTheRestAndReportsOnce) {
  ASSERT_OK(aclrtSetStreamFailureMode(stream_, ACL_CONTINUE_ON_FAILURE));
  bool ran = false;
  ASSERT_OK(Enqueue(stream_, FailingTask, "bad kernel"));
  ASSERT_OK(Enqueue(stream_, [&] { return ran = true, ACL_SUCCESS; }, "behind"));
  EXPECT_REFUSED(aclrtSynchronizeStream(stream_), ACL_ERROR_RT_AICORE_EXCEPTION, "bad kernel");
  EXPECT_TRUE(ran);
  EXPECT_OK(aclrtSynchronizeStream(stream_));
  EXPECT_REFUSED(aclrtSetStreamFailureMode(stream_, 2), ACL_ERROR_RT_PARAM_INVALID, "mode is 2");
}

TEST_F(StreamTest, AWorkersMessageReachesTheSynchronisingThread) {
  ASSERT_OK(Enqueue(
      stream_,
      [] {
        SetRecentError("rank 3 has died");
        return ACL_ERROR_RT_INTERNAL_ERROR;
      },
      "all-reduce"));
  EXPECT_REFUSED(aclrtSynchronizeStream(stream_), ACL_ERROR_RT_INTERNAL_ERROR, "rank 3 has died");
}

TEST_F(StreamTest, AnExceptionOfATaskIsItsFailure) {
  ASSERT_OK(Enqueue(stream_, []() -> aclError { throw std::runtime_error("index 7 out of range"); }, "gather"));
  EXPECT_REFUSED(aclrtSynchronizeStream(stream_), ACL_ERROR_RT_AICORE_EXCEPTION, "index 7 out of range");
}

TEST_F(StreamTest, SynchronisationTimeoutsLeaveTheStreamRunning) {
  Gate gate;
  ASSERT_OK(gate.Block(stream_));
  EXPECT_REFUSED(aclrtSynchronizeStreamWithTimeout(stream_, 5), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "still had 1 tasks");
  EXPECT_REFUSED(aclrtSynchronizeDeviceWithTimeout(5), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "still had");
  EXPECT_REFUSED(aclrtSynchronizeStreamWithTimeout(stream_, 0), ACL_ERROR_RT_PARAM_INVALID, "timeout is 0");
  gate.Open();
  EXPECT_OK(aclrtSynchronizeStreamWithTimeout(stream_, -1));
}

TEST_F(StreamTest, WrongHandlesAreRefused) {
  ASSERT_OK(aclrtDestroyStream(other_));
  EXPECT_REFUSED(aclrtSynchronizeStream(other_), ACL_ERROR_RT_INVALID_HANDLE, "not a live stream");
  EXPECT_REFUSED(aclrtDestroyStream(other_), ACL_ERROR_RT_INVALID_HANDLE, "was destroyed");
  int invented = 0;
  EXPECT_REFUSED(aclrtSynchronizeStream(&invented), ACL_ERROR_RT_INVALID_HANDLE, "never created");
  aclrtEvent event = nullptr;
  ASSERT_OK(aclrtCreateEvent(&event));
  EXPECT_REFUSED(aclrtSynchronizeStream(event), ACL_ERROR_RT_INVALID_HANDLE, "not a live stream");
  EXPECT_REFUSED(Enqueue(other_, FailingTask, "late"), ACL_ERROR_RT_INVALID_HANDLE, "late");
  EXPECT_EQ(StreamDevice(other_), -1);
  EXPECT_EQ(StreamContext(other_), nullptr);
  EXPECT_OK(aclrtDestroyEvent(event));
}

TEST_F(StreamTest, DestroyingABusyStreamIsRefusedUnlessForced) {
  Gate gate;
  ASSERT_OK(gate.Block(stream_));
  gate.WaitEntered();
  EXPECT_REFUSED(aclrtDestroyStream(stream_), ACL_ERROR_RT_STREAM_NOT_COMPLETE, "call aclrtSynchronizeStream first");
  EXPECT_OK(aclrtDestroyStreamForce(stream_));
  EXPECT_REFUSED(aclrtSynchronizeStream(stream_), ACL_ERROR_RT_INVALID_HANDLE, "not a live stream");
}

TEST_F(StreamTest, ADeviceAbortDropsWorkNotifiesWaitersAndLeavesTheStreamUsable) {
  Gate gate;
  bool ran = false;
  ASSERT_OK(gate.Block(stream_));
  ASSERT_OK(Enqueue(stream_, [&] { return ran = true, ACL_SUCCESS; }, "behind"));
  aclrtContext context = nullptr;
  ASSERT_OK(aclrtGetCurrentContext(&context));
  std::atomic<bool> waits{false};
  std::thread waiter([&] {
    EXPECT_OK(aclrtSetCurrentContext(context));
    waits = true;
    EXPECT_REFUSED(aclrtSynchronizeStream(stream_), ACL_ERROR_RT_DEVICE_TASK_ABORT, "were aborted");
  });
  while (!waits) std::this_thread::yield();
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_OK(aclrtDeviceTaskAbort(0, 5000));
  waiter.join();
  EXPECT_FALSE(ran);
  ASSERT_OK(Enqueue(stream_, [&] { return ran = true, ACL_SUCCESS; }, "again"));
  EXPECT_OK(aclrtSynchronizeStream(stream_));
  EXPECT_TRUE(ran);
}

TEST_F(StreamTest, StreamCountIsLimited) {
  std::vector<aclrtStream> streams;
  aclrtStream stream = nullptr;
  aclError error = ACL_SUCCESS;
  while ((error = aclrtCreateStream(&stream)) == ACL_SUCCESS && streams.size() < 3000) streams.push_back(stream);
  EXPECT_EQ(error, ACL_ERROR_RT_NO_STREAM_RESOURCE);
  EXPECT_EQ(streams.size() + 2, 1984u);
  ASSERT_OK(aclrtDestroyStream(streams.back()));
  EXPECT_OK(aclrtCreateStream(&stream));
}

TEST_F(StreamTest, RefusesUnknownConfigurations) {
  aclrtStream stream = nullptr;
  EXPECT_OK(aclrtCreateStreamWithConfig(&stream, 0, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC));
  EXPECT_REFUSED(aclrtCreateStreamWithConfig(&stream, 8, 0), ACL_ERROR_RT_PARAM_INVALID, "priority is 8");
  EXPECT_REFUSED(aclrtCreateStreamWithConfig(&stream, 0, 64), ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "flag is 64");
  EXPECT_REFUSED(aclrtCreateStream(nullptr), ACL_ERROR_INVALID_PARAM, "stream is null");
}

double ProcessorSeconds() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * t.tv_usec; };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

TEST_F(StreamTest, WaitingUsesNoCpu) {
  aclrtEvent never = nullptr;
  ASSERT_OK(aclrtCreateEvent(&never));
  ASSERT_OK(aclrtStreamWaitEvent(stream_, never));                 // a stream that waits for an event
  ASSERT_OK(Enqueue(other_, [] { return ACL_SUCCESS; }, "once"));  // a stream that has nothing more to do
  std::this_thread::sleep_for(milliseconds(50));
  const double before = ProcessorSeconds();
  aclrtSynchronizeStreamWithTimeout(stream_, 400);  // a thread that synchronises
  EXPECT_LT(ProcessorSeconds() - before, 0.4 * 0.1);
  EXPECT_OK(aclrtDestroyEvent(never));
  EXPECT_OK(aclrtDestroyStreamForce(stream_));
}

std::atomic<uint32_t> reported_code{0};
void KeepCode(aclrtExceptionInfo* info) { reported_code = aclrtGetErrorCodeFromExceptionInfo(info); }

TEST_F(StreamTest, AFailureCallsTheExceptionCallback) {
  ASSERT_OK(aclrtSetExceptionInfoCallback(KeepCode));
  ASSERT_OK(Enqueue(stream_, FailingTask, "bad kernel"));
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_EQ(reported_code, static_cast<uint32_t>(ACL_ERROR_RT_AICORE_EXCEPTION));
  EXPECT_EQ(aclrtGetStreamIdFromExceptionInfo(nullptr), 0xFFFFFFFFu);
  ASSERT_OK(aclrtSetExceptionInfoCallback(nullptr));
}

}  // namespace
}  // namespace twin
