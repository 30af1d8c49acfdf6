// What never arrives and what does not fit: a rank that does not join, one that joins but never calls, a
// device whose memory is full. Each ends in the documented error code.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/twin/hccl/conformance_processes.h"
#include "tests/twin/hccl/conformance_watchdog.h"

namespace conformance {
namespace {

constexpr HcclDataType kType = HCCL_DATA_TYPE_FP32;
constexpr HcclReduceOp kSum = HCCL_REDUCE_SUM;
constexpr double kPatience = 30;
constexpr aclError kOutOfMemory = 207001;  // ACL_ERROR_RT_MEMORY_ALLOCATION, missing in the wheel's headers

Environment Short(bool tcp) {
  Environment environment = {
      {"TWIN_SHORT_TIMEOUTS", "1"}, {"HCCL_CONNECT_TIMEOUT", "2"}, {"HCCL_EXEC_TIMEOUT", "2"}, {"HCCL_BUFFSIZE", "4"}};
  if (tcp) environment.push_back({"TWIN_HCCL_TRANSPORT", "tcp"});
  return environment;
}

class ConformanceAbsence : public ::testing::TestWithParam<bool> {};

TEST_P(ConformanceAbsence, ARankThatNeverJoinsIsATimeoutForTheOthers) {
  for (const uint32_t absent : {2u, 0u}) {
    Processes ranks(3, Short(GetParam()), [&](Member& me) {
      if (me.rank == absent && me.rank != 0) me.Linger();
      if (me.rank == absent) {  // creates the root info, then does not join
        HcclGetRootInfo(&me.shared->root);
        me.shared->root_ready = 1;
        me.Linger();
      }
      const double start = Seconds();
      me.report().call = me.Join();
      me.report().at = Seconds() - start;
      me.Reached(1);
    });
    for (uint32_t rank = 0; rank < 3; ++rank) {
      if (rank == absent) continue;
      ASSERT_TRUE(ranks.AwaitStage(rank, 1, kPatience)) << "rank " << rank << " hangs";
      EXPECT_EQ(ranks.report(rank).call, HCCL_E_TIMEOUT) << "rank " << rank << " without rank " << absent;
      EXPECT_GE(ranks.report(rank).at, 1.9) << "it gave up before HCCL_CONNECT_TIMEOUT";
      EXPECT_TRUE(ranks.EndedWell(rank, kPatience));
    }
  }
}

TEST_P(ConformanceAbsence, ARankThatDiesWhileOthersJoinIsAnErrorForThem) {
  for (const uint32_t victim : {1u, 0u}) {
    Processes ranks(3, Short(GetParam()), [&](Member& me) {
      me.Reached(1);
      if (me.rank == 2) me.Linger();
      me.report().call = me.Join();
      me.Reached(2);
    });
    for (uint32_t rank = 0; rank < 2; ++rank) ASSERT_TRUE(ranks.AwaitStage(rank, 1, kPatience));
    const uint32_t survivor = 1 - victim;
    ranks.AwaitStage(victim, 2, 0.3);  // gives both time to enter the call; neither can leave it yet
    ranks.Kill(victim);
    ASSERT_TRUE(ranks.AwaitStage(survivor, 2, kPatience)) << "rank " << survivor << " hangs";
    EXPECT_NE(ranks.report(survivor).call, HCCL_SUCCESS);
  }
}

TEST_P(ConformanceAbsence, ARankThatNeverCallsIsATimeoutForTheOthers) {
  Processes ranks(3, Short(GetParam()), [&](Member& me) {
    if (me.Join() != HCCL_SUCCESS) _exit(6);
    me.Reached(1);
    if (me.rank == 1) me.Linger();
    const double start = Seconds();
    std::vector<float> values(1000);
    const HcclResult call = HcclAllReduce(values.data(), values.data(), 1000, kType, kSum, me.comm, me.stream);
    me.Record(call, aclrtSynchronizeStream(me.stream));
    me.report().at -= start;
    me.report().after = HcclAllReduce(values.data(), values.data(), 1000, kType, kSum, me.comm, me.stream);
    me.Reached(2);
  });
  for (const uint32_t rank : {0u, 2u}) {
    ASSERT_TRUE(ranks.AwaitStage(rank, 2, kPatience)) << "rank " << rank << " hangs";
    const Report& report = ranks.report(rank);
    EXPECT_EQ(report.call, HCCL_SUCCESS) << "the call only queues";
    EXPECT_NE(report.stream, ACL_SUCCESS);
    EXPECT_GE(report.at, 1.9) << "it gave up before HCCL_EXEC_TIMEOUT";
    EXPECT_EQ(report.after, HCCL_E_TIMEOUT) << report.text;
    EXPECT_NE(std::string(report.text).find("1"), std::string::npos) << "the absent rank is not named: " << report.text;
    EXPECT_TRUE(ranks.EndedWell(rank, kPatience));
  }
}

TEST_P(ConformanceAbsence, ARankThatHasDestroyedItsCommunicatorIsMissedByTheOthers) {
  Processes ranks(2, Short(GetParam()), [&](Member& me) {
    if (me.Join() != HCCL_SUCCESS) _exit(6);
    if (me.rank == 1) {
      if (HcclCommDestroy(me.comm) != HCCL_SUCCESS) _exit(5);
      me.Reached(1);
      me.Linger();
    }
    me.AwaitRelease(1);
    float value = 1;
    const HcclResult call = HcclAllReduce(&value, &value, 1, kType, kSum, me.comm, me.stream);
    me.report().call = call;
    me.report().stream = aclrtSynchronizeStream(me.stream);
    me.Reached(2);
  });
  ASSERT_TRUE(ranks.AwaitStage(1, 1, kPatience)) << "HcclCommDestroy hangs";
  ranks.Release(1);
  ASSERT_TRUE(ranks.AwaitStage(0, 2, kPatience)) << "it hangs";
  EXPECT_TRUE(ranks.report(0).call != HCCL_SUCCESS || ranks.report(0).stream != ACL_SUCCESS);
  EXPECT_TRUE(ranks.EndedWell(0, kPatience));
}

INSTANTIATE_TEST_SUITE_P(All, ConformanceAbsence, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Tcp" : "SharedMemory"; });

constexpr size_t kMegabyte = 1 << 20;

TEST(ConformanceMemory, AFullDeviceReportsOutOfMemoryAndRecovers) {
  Environment environment = Short(false);
  environment.push_back({"TWIN_DEVICE_MEMORY_GB", "1"});
  environment.push_back({"HCCL_BUFFSIZE", "200"});
  Processes ranks(2, environment, [](Member& me) {
    Report& report = me.report();
    void *large = nullptr, *fill = nullptr;
    report.stream = aclrtMalloc(&large, 2048 * kMegabyte, ACL_MEM_MALLOC_NORMAL_ONLY);
    if (me.rank == 0 && aclrtMalloc(&fill, 700 * kMegabyte, ACL_MEM_MALLOC_NORMAL_ONLY) != ACL_SUCCESS) _exit(5);
    report.call = me.Join();  // needs 2 x 200 MB, which rank 0 no longer has
    me.Reached(1);
    me.AwaitRelease(1);
    if (fill != nullptr) aclrtFree(fill);
    me.shared->root_ready = 0;
    me.Reached(2);
    me.AwaitRelease(2);
    report.after = me.Join();
    me.Reached(3);
  });
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(ranks.AwaitStage(rank, 1, kPatience)) << "rank " << rank << " hangs";
    EXPECT_EQ(ranks.report(rank).stream, kOutOfMemory) << "2 GB of a 1 GB device";
  }
  EXPECT_EQ(ranks.report(0).call, HCCL_E_MEMORY);
  EXPECT_NE(ranks.report(1).call, HCCL_SUCCESS) << "rank 1 has a communicator that rank 0 does not have";
  ranks.Release(1);
  for (uint32_t rank = 0; rank < 2; ++rank) ASSERT_TRUE(ranks.AwaitStage(rank, 2, kPatience));
  ranks.Release(2);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(ranks.AwaitStage(rank, 3, kPatience)) << "rank " << rank << " hangs";
    EXPECT_EQ(ranks.report(rank).after, HCCL_SUCCESS) << "memory is free again";
    EXPECT_TRUE(ranks.EndedWell(rank, kPatience));
  }
}

TEST(ConformanceMemory, ACommunicatorUsesTwiceItsBufferSizeAndFreesIt) {
  Environment environment = Short(false);
  environment.push_back({"HCCL_BUFFSIZE", "50"});
  Processes ranks(2, environment, [](Member& me) {
    size_t before = 0, with = 0, after = 0, total = 0;
    aclrtGetMemInfo(ACL_HBM_MEM, &before, &total);
    if (me.Join() != HCCL_SUCCESS) _exit(6);
    aclrtGetMemInfo(ACL_HBM_MEM, &with, &total);
    if (HcclCommDestroy(me.comm) != HCCL_SUCCESS) _exit(7);
    me.comm = nullptr;
    aclrtGetMemInfo(ACL_HBM_MEM, &after, &total);
    me.report().call = static_cast<int>((before - with) / kMegabyte);
    me.report().stream = static_cast<int>((before - after) / kMegabyte);
    me.Reached(1);
  });
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(ranks.AwaitStage(rank, 1, kPatience)) << "rank " << rank << " hangs";
    EXPECT_GE(ranks.report(rank).call, 100) << "MB taken";
    EXPECT_LE(ranks.report(rank).call, 110) << "MB taken";
    EXPECT_EQ(ranks.report(rank).stream, 0) << "MB not freed";
  }
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  conformance::GuardEveryTest(120);
  return RUN_ALL_TESTS();
}
