// Events: what the events of each creation function permit, waits across streams, timing.
#include <chrono>

#include "tests/twin/acl/acl_test.h"

namespace twin {
namespace {

class EventTest : public AclTest {
 protected:
  void SetUp() override {
    AclTest::SetUp();
    ASSERT_OK(aclrtCreateStream(&stream_));
    ASSERT_OK(aclrtCreateStream(&other_));
    ASSERT_OK(aclrtCreateEvent(&plain_));
    ASSERT_OK(aclrtCreateEventWithFlag(&sync_, ACL_EVENT_SYNC));
    ASSERT_OK(aclrtCreateEventWithFlag(&progress_, ACL_EVENT_CAPTURE_STREAM_PROGRESS));
    ASSERT_OK(aclrtCreateEventExWithFlag(&ex_, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
  }
  void TearDown() override {
    for (aclrtEvent event : {plain_, sync_, progress_, ex_}) EXPECT_OK(aclrtDestroyEvent(event));
    AclTest::TearDown();
  }

  static aclrtEventRecordedStatus Status(aclrtEvent event) {
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    EXPECT_OK(aclrtQueryEventStatus(event, &status));
    return status;
  }

  aclrtStream stream_ = nullptr;
  aclrtStream other_ = nullptr;
  aclrtEvent plain_ = nullptr;
  aclrtEvent sync_ = nullptr;
  aclrtEvent progress_ = nullptr;
  aclrtEvent ex_ = nullptr;
};

TEST_F(EventTest, AStreamWaitsForAnotherWhicheverEventIsUsed) {
  for (aclrtEvent event : {plain_, sync_, ex_}) {
    Gate gate;
    std::atomic<int> value{0};
    ASSERT_OK(gate.Block(stream_));
    ASSERT_OK(Enqueue(stream_, [&] { return value = 1, ACL_SUCCESS; }, "write"));
    ASSERT_OK(aclrtRecordEvent(event, stream_));
    ASSERT_OK(aclrtStreamWaitEvent(other_, event));
    int seen = -1;
    ASSERT_OK(Enqueue(other_, [&] { return seen = value, ACL_SUCCESS; }, "read"));
    aclrtStreamStatus status = ACL_STREAM_STATUS_COMPLETE;
    ASSERT_OK(aclrtStreamQuery(other_, &status));
    EXPECT_EQ(status, ACL_STREAM_STATUS_NOT_READY);
    EXPECT_EQ(Status(event), ACL_EVENT_RECORDED_STATUS_NOT_READY);
    gate.Open();
    ASSERT_OK(aclrtSynchronizeStream(other_));
    EXPECT_EQ(seen, 1);
    EXPECT_EQ(Status(event), ACL_EVENT_RECORDED_STATUS_COMPLETE);
  }
}

TEST_F(EventTest, AWaitIsForTheLastRecordBeforeIt) {
  ASSERT_OK(aclrtRecordEvent(ex_, stream_));
  ASSERT_OK(aclrtSynchronizeStream(stream_));
  Gate gate;
  ASSERT_OK(gate.Block(stream_));
  ASSERT_OK(aclrtStreamWaitEvent(other_, ex_));  // for the first record
  ASSERT_OK(aclrtRecordEvent(ex_, stream_));     // the second
  EXPECT_OK(aclrtSynchronizeStreamWithTimeout(other_, 5000));
  EXPECT_EQ(Status(ex_), ACL_EVENT_RECORDED_STATUS_NOT_READY);
  ASSERT_OK(aclrtStreamWaitEvent(other_, ex_));  // for the second record
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(other_, 10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  gate.Open();
  EXPECT_OK(aclrtSynchronizeStream(other_));
  EXPECT_OK(aclrtSynchronizeEvent(ex_));
}

TEST_F(EventTest, APlainEventMayBeWaitedForBeforeItIsRecorded) {
  ASSERT_OK(aclrtStreamWaitEvent(other_, plain_));
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(other_, 10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  ASSERT_OK(aclrtRecordEvent(plain_, stream_));
  EXPECT_OK(aclrtSynchronizeStream(other_));
}

TEST_F(EventTest, BeforeTheFirstRecordOnlyAnExEventIsComplete) {
  EXPECT_EQ(Status(ex_), ACL_EVENT_RECORDED_STATUS_COMPLETE);
  EXPECT_OK(aclrtSynchronizeEvent(ex_));
  ASSERT_OK(aclrtStreamWaitEvent(stream_, ex_));
  EXPECT_OK(aclrtSynchronizeStream(stream_));
  for (aclrtEvent event : {plain_, sync_, progress_}) {
    EXPECT_EQ(Status(event), ACL_EVENT_RECORDED_STATUS_NOT_READY);
    EXPECT_REFUSED(aclrtSynchronizeEvent(event), ACL_ERROR_RT_PARAM_INVALID, "has not been recorded");
  }
}

TEST_F(EventTest, OnlyEventsWithTheSyncFlagAreReset) {
  EXPECT_REFUSED(aclrtResetEvent(plain_, stream_), ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "cannot be reset");
  EXPECT_REFUSED(aclrtResetEvent(progress_, stream_), ACL_ERROR_RT_PARAM_INVALID, "needs the flag ACL_EVENT_SYNC");
  EXPECT_REFUSED(aclrtResetEvent(ex_, stream_), ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtCreateEventExWithFlag");
  ASSERT_OK(aclrtRecordEvent(sync_, stream_));
  ASSERT_OK(aclrtResetEvent(sync_, stream_));
  ASSERT_OK(aclrtSynchronizeStream(stream_));
  EXPECT_EQ(Status(sync_), ACL_EVENT_RECORDED_STATUS_NOT_READY);
  ASSERT_OK(aclrtStreamWaitEvent(other_, sync_));
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(other_, 10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  ASSERT_OK(aclrtRecordEvent(sync_, stream_));
  EXPECT_OK(aclrtSynchronizeStream(other_));
}

TEST_F(EventTest, AnEventWithoutTheSyncFlagCannotBeWaitedFor) {
  EXPECT_REFUSED(aclrtStreamWaitEvent(stream_, progress_), ACL_ERROR_RT_PARAM_INVALID, "needs the flag ACL_EVENT_SYNC");
  ASSERT_OK(aclrtRecordEvent(progress_, stream_));
  EXPECT_OK(aclrtSynchronizeEvent(progress_));
}

TEST_F(EventTest, ExEventsRefuseTheOldQueries) {
  aclrtEventStatus status = ACL_EVENT_STATUS_RESERVED;
  aclrtEventWaitStatus waits = ACL_EVENT_WAIT_STATUS_RESERVED;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  EXPECT_REFUSED(aclrtQueryEvent(ex_, &status), ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtQueryEventStatus");
  EXPECT_OK(aclrtQueryEvent(plain_, &status));
#pragma GCC diagnostic pop
  EXPECT_EQ(status, ACL_EVENT_STATUS_NOT_READY);
  EXPECT_REFUSED(aclrtQueryEventWaitStatus(ex_, &waits), ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "ExWithFlag");
  ASSERT_OK(aclrtStreamWaitEvent(other_, plain_));
  EXPECT_OK(aclrtQueryEventWaitStatus(plain_, &waits));
  EXPECT_EQ(waits, ACL_EVENT_WAIT_STATUS_NOT_READY);
  ASSERT_OK(aclrtRecordEvent(plain_, stream_));
  ASSERT_OK(aclrtSynchronizeStream(other_));
  EXPECT_OK(aclrtQueryEventWaitStatus(plain_, &waits));
  EXPECT_EQ(waits, ACL_EVENT_WAIT_STATUS_COMPLETE);
}

TEST_F(EventTest, MayBeDestroyedBeforeItIsReached) {
  Gate gate;
  aclrtEvent event = nullptr;
  ASSERT_OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
  ASSERT_OK(gate.Block(stream_));
  ASSERT_OK(aclrtRecordEvent(event, stream_));
  ASSERT_OK(aclrtStreamWaitEvent(other_, event));
  EXPECT_OK(aclrtDestroyEvent(event));
  EXPECT_REFUSED(aclrtRecordEvent(event, stream_), ACL_ERROR_RT_INVALID_HANDLE, "not a live event");
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(other_, 10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  gate.Open();
  EXPECT_OK(aclrtSynchronizeStream(other_));
}

TEST_F(EventTest, ElapsedTimeIsBetweenTheEvents) {
  for (aclrtEvent end : {plain_, ex_}) {
    aclrtEvent start = nullptr;
    ASSERT_OK(aclrtCreateEventWithFlag(&start, ACL_EVENT_TIME_LINE));
    ASSERT_OK(aclrtRecordEvent(start, stream_));
    ASSERT_OK(Enqueue(
        stream_,
        [] {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          return ACL_SUCCESS;
        },
        "nap"));
    ASSERT_OK(aclrtRecordEvent(end, stream_));
    ASSERT_OK(aclrtSynchronizeStream(stream_));
    float ms = 0;
    ASSERT_OK(aclrtEventElapsedTime(&ms, start, end));
    EXPECT_GE(ms, 20.0f);
    EXPECT_REFUSED(aclrtEventElapsedTime(&ms, end, start), ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, "swap the two");
    EXPECT_OK(aclrtDestroyEvent(start));
  }
}

TEST_F(EventTest, ElapsedTimeNeedsRecordedTimedEvents) {
  float ms = 0;
  Gate gate;
  EXPECT_REFUSED(aclrtEventElapsedTime(&ms, plain_, ex_), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "not been recorded");
  ASSERT_OK(gate.Block(stream_));
  ASSERT_OK(aclrtRecordEvent(plain_, stream_));
  EXPECT_REFUSED(aclrtEventElapsedTime(&ms, plain_, ex_), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "synchronise first");
  gate.Open();
  ASSERT_OK(aclrtRecordEvent(sync_, stream_));
  ASSERT_OK(aclrtSynchronizeStream(stream_));
  EXPECT_REFUSED(aclrtEventElapsedTime(&ms, plain_, sync_), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
                 "wanted the flag ACL_EVENT_TIME_LINE");
}

TEST_F(EventTest, RefusesUnknownFlagsAndOtherDevices) {
  aclrtEvent event = nullptr;
  EXPECT_REFUSED(aclrtCreateEventWithFlag(&event, 0), ACL_ERROR_RT_PARAM_INVALID, "flag is 0");
  EXPECT_REFUSED(aclrtCreateEventExWithFlag(&event, 0x100), ACL_ERROR_RT_PARAM_INVALID, "flag is 256");
  ASSERT_OK(aclrtSetDevice(1));
  EXPECT_REFUSED(aclrtRecordEvent(plain_, nullptr), ACL_ERROR_RT_STREAM_CONTEXT, "created on device 0");
  EXPECT_OK(aclrtResetDevice(1));
  ASSERT_OK(aclrtSetDevice(0));
}

TEST_F(EventTest, AFailureReachesWaitingStreams) {
  ASSERT_OK(Enqueue(stream_, [] { return ACL_ERROR_RT_AICORE_TIMEOUT; }, "slow kernel"));
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_ERROR_RT_AICORE_TIMEOUT);
  EXPECT_REFUSED(aclrtRecordEvent(plain_, stream_), ACL_ERROR_RT_AICORE_TIMEOUT, "slow kernel");
  EXPECT_REFUSED(aclrtSynchronizeEvent(plain_), ACL_ERROR_RT_AICORE_TIMEOUT, "has failed");
  ASSERT_OK(aclrtStreamWaitEvent(other_, plain_));
  EXPECT_REFUSED(aclrtSynchronizeStream(other_), ACL_ERROR_RT_AICORE_TIMEOUT, "has failed");
}

TEST_F(EventTest, AWaitEndsAtTheLimitTheProgramSet) {
  ASSERT_OK(aclrtSetOpWaitTimeout(1));
  ASSERT_OK(aclrtStreamWaitEvent(other_, plain_));
  EXPECT_REFUSED(aclrtSynchronizeStream(other_), ACL_ERROR_RT_TASK_TIMEOUT, "not recorded within 1 s");
  ASSERT_OK(aclrtSetOpWaitTimeout(0));
}

}  // namespace
}  // namespace twin
