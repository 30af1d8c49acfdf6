// A rank that dies: every survivor gets an error within 5 s, from its stream and from the asynchronous query,
// and can still exit cleanly. Shared memory and TCP, the first rank (which created the root info) and the
// last.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/twin/hccl/conformance_processes.h"
#include "tests/twin/hccl/conformance_watchdog.h"

namespace conformance {
namespace {

constexpr HcclDataType kType = HCCL_DATA_TYPE_FP32;
constexpr HcclReduceOp kSum = HCCL_REDUCE_SUM;
constexpr double kNoticeSeconds = 5;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr size_t kLargeCount = 1 << 20;  // instrumented, a sum is an order of magnitude slower
#else
constexpr size_t kLargeCount = 16 << 20;
#endif
constexpr double kPatience = 30;  // for steps without a specified limit: start-up on a loaded machine

void Sleep(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

enum class Moment { kBefore, kWaiting, kReceiving, kMiddleOfLarge, kAfter };

struct Fault {
  Moment moment;
  uint32_t size;
  bool tcp;
  bool first_dies;  // otherwise the last
};

std::string Name(const ::testing::TestParamInfo<Fault>& info) {
  static const char* const moments[] = {"Before", "Waiting", "Receiving", "MiddleOfLarge", "After"};
  return std::string(moments[static_cast<int>(info.param.moment)]) + std::to_string(info.param.size) + "Ranks" +
         (info.param.tcp ? "Tcp" : "SharedMemory") + (info.param.first_dies ? "FirstDies" : "LastDies");
}

std::vector<Fault> AllFaults() {
  std::vector<Fault> faults;
  for (const Moment moment :
       {Moment::kBefore, Moment::kWaiting, Moment::kReceiving, Moment::kMiddleOfLarge, Moment::kAfter}) {
    for (const uint32_t size : {2u, 4u}) {
      for (const bool tcp : {false, true}) {
        for (const bool first_dies : {false, true}) faults.push_back({moment, size, tcp, first_dies});
      }
    }
  }
  return faults;
}

Environment For(const Fault& fault) {
  Environment environment = {{"HCCL_BUFFSIZE", "4"}, {"HCCL_EXEC_TIMEOUT", "60"}};
  if (fault.tcp) environment.push_back({"TWIN_HCCL_TRANSPORT", "tcp"});
  return environment;
}

void ReduceAndRecord(Member& me) {
  std::vector<float> values(1000);
  const HcclResult call = HcclAllReduce(values.data(), values.data(), values.size(), kType, kSum, me.comm, me.stream);
  me.Reached(2);
  me.Record(call, aclrtSynchronizeStream(me.stream));
}

void LoopUntilFailure(Member& me) {
  void* values = nullptr;
  if (aclrtMalloc(&values, kLargeCount * 4, ACL_MEM_MALLOC_NORMAL_ONLY) != ACL_SUCCESS) _exit(7);
  for (HcclResult call = HCCL_SUCCESS; call == HCCL_SUCCESS;) {
    call = HcclAllReduce(values, values, kLargeCount, kType, kSum, me.comm, me.stream);
    const aclError stream = aclrtSynchronizeStream(me.stream);
    if (call != HCCL_SUCCESS || stream != ACL_SUCCESS) {
      me.Record(call, stream);
      break;
    }
    me.Reached(2);
  }
  aclrtFree(values);
}

void ReceiveAndRecord(Member& me, uint32_t victim) {
  std::vector<float> values(1000);
  const HcclResult call = HcclRecv(values.data(), values.size(), kType, victim, me.comm, me.stream);
  me.Reached(2);
  me.Record(call, aclrtSynchronizeStream(me.stream));
}

void Survive(Member& me, Moment moment, uint32_t victim) {
  if (moment == Moment::kWaiting) return ReduceAndRecord(me);
  if (moment == Moment::kReceiving) return ReceiveAndRecord(me, victim);
  if (moment == Moment::kMiddleOfLarge) return LoopUntilFailure(me);
  me.Reached(2);
  me.AwaitRelease(1);
  if (moment == Moment::kBefore) return ReduceAndRecord(me);
  me.Record(HCCL_E_RESERVED, ACL_SUCCESS);  // no call: only the asynchronous query can tell
  me.report().at = Seconds();
}

void RunMember(Member& me, Moment moment, uint32_t victim) {
  if (me.Join() != HCCL_SUCCESS) _exit(6);
  if (moment == Moment::kAfter) {
    float value = 1;
    if (HcclAllReduce(&value, &value, 1, kType, kSum, me.comm, me.stream) != HCCL_SUCCESS) _exit(5);
    if (aclrtSynchronizeStream(me.stream) != ACL_SUCCESS) _exit(5);
  }
  me.Reached(1);
  if (me.rank == victim && moment == Moment::kMiddleOfLarge) LoopUntilFailure(me);
  if (me.rank == victim) {
    me.Reached(2);
    me.Linger();
  }
  Survive(me, moment, victim);
  float value = 1;
  me.report().after = HcclAllReduce(&value, &value, 1, kType, kSum, me.comm, me.stream);
  me.Reached(3);
}

class ConformanceFault : public ::testing::TestWithParam<Fault> {};

TEST_P(ConformanceFault, EverySurvivorGetsAnErrorInTime) {
  const Fault& fault = GetParam();
  const uint32_t victim = fault.first_dies ? 0 : fault.size - 1;
  Processes ranks(fault.size, For(fault), [&](Member& me) { RunMember(me, fault.moment, victim); });
  for (uint32_t rank = 0; rank < fault.size; ++rank) {
    ASSERT_TRUE(ranks.AwaitStage(rank, 2, kPatience)) << "rank " << rank << " did not reach the fault";
  }
  Sleep(fault.moment == Moment::kMiddleOfLarge ? 37 : 50);
  const double killed = ranks.Kill(victim);
  ranks.Release(1);
  for (uint32_t rank = 0; rank < fault.size; ++rank) {
    if (rank == victim) continue;
    SCOPED_TRACE("survivor " + std::to_string(rank));
    ASSERT_TRUE(ranks.AwaitStage(rank, 3, kPatience)) << "rank " << rank << " hangs";
    const Report& report = ranks.report(rank);
    EXPECT_LE(report.at - killed, kNoticeSeconds) << report.text;
    EXPECT_TRUE(report.call != HCCL_SUCCESS || report.stream != ACL_SUCCESS);
    EXPECT_EQ(report.async, HCCL_E_REMOTE);
    EXPECT_NE(report.after, HCCL_SUCCESS) << "a failed communicator accepted another collective";
    if (report.stream != ACL_SUCCESS) {
      EXPECT_NE(std::string(report.text).find(std::to_string(victim)), std::string::npos)
          << "the text does not name the dead rank: " << report.text;
    }
    EXPECT_TRUE(ranks.EndedWell(rank, kPatience)) << "it could not exit cleanly";
  }
}

INSTANTIATE_TEST_SUITE_P(All, ConformanceFault, ::testing::ValuesIn(AllFaults()), Name);

TEST(ConformanceFaultOther, ARankThatExitsWithoutDestroyCountsAsDead) {
  Processes ranks(2, {{"HCCL_BUFFSIZE", "4"}}, [](Member& me) {
    if (me.Join() != HCCL_SUCCESS) _exit(6);
    if (me.rank == 1) _exit(0);
    ReduceAndRecord(me);
    me.Reached(3);
  });
  ASSERT_TRUE(ranks.AwaitStage(0, 3, kPatience)) << "rank 0 hangs";
  EXPECT_TRUE(ranks.report(0).call != HCCL_SUCCESS || ranks.report(0).stream != ACL_SUCCESS);
  EXPECT_EQ(ranks.report(0).async, HCCL_E_REMOTE);
}

TEST(ConformanceFaultOther, ASubCommunicatorLearnsOfItsDeadMember) {
  Processes ranks(4, {{"HCCL_BUFFSIZE", "4"}}, [](Member& me) {
    if (me.Join() != HCCL_SUCCESS) _exit(6);
    uint32_t members[] = {me.rank & ~1u, me.rank | 1u};
    HcclCommConfig config;
    HcclCommConfigInit(&config);
    config.hcclBufferSize = 4;
    HcclComm global = me.comm;
    if (HcclCreateSubCommConfig(&global, 2, members, me.rank / 2, me.rank % 2, &config, &me.comm) != HCCL_SUCCESS) {
      _exit(5);
    }
    me.Reached(1);
    if (me.rank == 3) me.Linger();
    if (me.rank == 2) {
      ReduceAndRecord(me);
    } else {
      me.AwaitRelease(1);  // a group without the dead rank still works
      float value = 1;
      me.report().call = HcclAllReduce(&value, &value, 1, kType, kSum, me.comm, me.stream);
      me.report().stream = aclrtSynchronizeStream(me.stream);
      if (value != 2) _exit(4);
    }
    HcclCommDestroy(me.comm);
    me.comm = global;
    me.Reached(3);
  });
  for (uint32_t rank = 0; rank < 4; ++rank) ASSERT_TRUE(ranks.AwaitStage(rank, 1, kPatience)) << rank;
  ranks.Kill(3);
  ASSERT_TRUE(ranks.AwaitStage(2, 3, kPatience)) << "rank 2 hangs";
  EXPECT_EQ(ranks.report(2).async, HCCL_E_REMOTE);
  ranks.Release(1);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(ranks.AwaitStage(rank, 3, kPatience)) << "rank " << rank << " hangs";
    EXPECT_EQ(ranks.report(rank).call, HCCL_SUCCESS) << "rank " << rank << " and its partner are alive";
    EXPECT_EQ(ranks.report(rank).stream, ACL_SUCCESS);
  }
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  conformance::GuardEveryTest(120);
  return RUN_ALL_TESTS();
}
