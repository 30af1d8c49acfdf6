// The communicators of a plan: members, order, sharing, groups of one, and sums within each group only.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "core/device/cann_info.h"
#include "tests/core/comm/spmd.h"

namespace trireme {
namespace {

// All combinations of tensor and pipeline sizes that divide the world; data parallelism is the rest.
std::vector<ParallelSizes> Layouts(int world) {
  std::vector<ParallelSizes> layouts;
  for (int tensor = 1; tensor <= world; ++tensor) {
    for (int pipeline = 1; tensor * pipeline <= world; ++pipeline) {
      if (world % (tensor * pipeline) == 0) layouts.push_back({.tensor = tensor, .pipeline = pipeline});
    }
  }
  return layouts;
}

std::vector<GroupSpec> SmallGroups() {
  std::vector<GroupSpec> specs = TrainingGroups({.experts = true, .tied_embedding = true, .buffer_mb = 4});
  for (GroupSpec& spec : specs) spec.buffer_mb = 4;
  return specs;
}

std::string Variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

float SumOver(Communicator& communicator, float mine) {
  const DeviceBuffer data = ToDevice(std::vector<float>{mine});
  communicator.AllReduce(data.data(), data.data(), 1, DType::kFp32, ReduceOp::kSum).Wait();
  return ToHost<float>(data)[0];
}

TEST(Groups, EveryGroupOfEveryLayoutSumsItsOwnMembers) {
  const int rank = TestJob().rank();
  for (const ParallelSizes& sizes : Layouts(TestJob().world())) {
    const GroupPlan plan(MakeGrids(TestJob().world(), sizes), SmallGroups());
    const CommunicatorSet groups(TestJob(), TestDevice(), plan, {});
    for (const PlannedGroup& planned : plan.groups()) {
      const std::string& name = planned.spec.name;
      const RankList members = plan.Members(name, rank);
      ASSERT_EQ(groups.Has(name), !members.empty()) << name;
      if (members.empty()) continue;
      Communicator& communicator = groups.Get(name);
      EXPECT_EQ(communicator.members(), members) << name;
      EXPECT_EQ(members[communicator.rank()], rank) << name;
      float wanted = 0;
      for (int member : members) wanted += static_cast<float>(1 << member);
      EXPECT_EQ(SumOver(communicator, static_cast<float>(1 << rank)), wanted)
          << name << ", tensor " << sizes.tensor << ", pipeline " << sizes.pipeline;
    }
  }
}

TEST(Groups, SharedOnesAreOneCommunicator) {
  const GroupPlan plan(MakeGrids(TestJob().world(), {.tensor = TestJob().world()}), SmallGroups());
  const CommunicatorSet groups(TestJob(), TestDevice(), plan, {});
  int shared = 0;
  for (const PlannedGroup& planned : plan.groups()) {
    if (planned.shares.empty()) continue;
    ++shared;
    EXPECT_EQ(&groups.Get(planned.spec.name), &groups.Get(planned.shares)) << planned.spec.name;
  }
  EXPECT_EQ(shared > 0, TestJob().world() > 1);  // tp and tp-cp have the same members
}

TEST(Groups, EachCommunicatorUsesTwiceItsBufferOfDeviceMemory) {
  if (TestJob().world() == 1) return;    // no communicator is created
  if (CannProvider() == "cuda") return;  // NCCL sizes its own buffers, and ranks may share a GPU
  const GroupPlan plan(MakeGrids(TestJob().world(), {.tensor = TestJob().world()}), SmallGroups());
  const size_t before = TestDevice().memory().free_bytes;
  {
    const CommunicatorSet groups(TestJob(), TestDevice(), plan, {});
    const size_t wanted = static_cast<size_t>(plan.DeviceMemoryMb()[TestJob().rank()]) << 20;
    EXPECT_EQ(before - TestDevice().memory().free_bytes, wanted);
  }
  EXPECT_EQ(TestDevice().memory().free_bytes, before);
}

// HCCL reads both when it makes its first communicator.
TEST(Groups, EachTimeOutReachesItsVariableUnlessTheUserSetIt) {
  const std::string connect = Variable("HCCL_CONNECT_TIMEOUT"), exec = Variable("HCCL_EXEC_TIMEOUT");
  const GroupPlan plan(MakeGrids(TestJob().world(), {}), {{.name = "tp", .axes = {"tp"}, .buffer_mb = 4}});
  const CommOptions options{.connect_timeout_s = 301, .exec_timeout_s = 402};
  unsetenv("HCCL_CONNECT_TIMEOUT");
  unsetenv("HCCL_EXEC_TIMEOUT");
  {
    const CommunicatorSet groups(TestJob(), TestDevice(), plan, options);
  }
  EXPECT_EQ(Variable("HCCL_CONNECT_TIMEOUT"), "301");
  EXPECT_EQ(Variable("HCCL_EXEC_TIMEOUT"), "402");
  setenv("HCCL_EXEC_TIMEOUT", "503", 1);
  unsetenv("HCCL_CONNECT_TIMEOUT");
  {
    const CommunicatorSet groups(TestJob(), TestDevice(), plan, options);
  }
  EXPECT_EQ(Variable("HCCL_CONNECT_TIMEOUT"), "301");
  EXPECT_EQ(Variable("HCCL_EXEC_TIMEOUT"), "503");
  setenv("HCCL_CONNECT_TIMEOUT", connect.c_str(), 1);
  setenv("HCCL_EXEC_TIMEOUT", exec.c_str(), 1);
}

TEST(Groups, OfOneAreIdentitiesWithoutHccl) {
  const GroupPlan plan(MakeGrids(TestJob().world(), {}), {{.name = "tp", .axes = {"tp"}, .buffer_mb = 4}});
  const size_t before = TestDevice().memory().free_bytes;
  const CommunicatorSet groups(TestJob(), TestDevice(), plan, {});
  if (CannProvider() != "cuda") {
    EXPECT_EQ(TestDevice().memory().free_bytes, before);
  }
  Communicator& alone = groups.Get("tp");
  ASSERT_EQ(alone.size(), 1);
  const std::vector<float> values = {1, 2, 3, 4};
  const DeviceBuffer source = ToDevice(values);
  const auto copies = [&](auto call) {
    const DeviceBuffer target = ToDevice(std::vector<float>(4, -1));
    call(target.data()).Wait();
    return ToHost<float>(target) == values;
  };
  const Parts whole = {{4}, {0}};
  constexpr DType kType = DType::kFp32;
  const void* data = source.data();
  EXPECT_TRUE(copies([&](void* t) { return alone.AllReduce(data, t, 4, kType, ReduceOp::kSum); }));
  EXPECT_TRUE(copies([&](void* t) { return alone.AllGather(data, t, 4, kType); }));
  EXPECT_TRUE(copies([&](void* t) { return alone.ReduceScatter(data, t, 4, kType, ReduceOp::kSum); }));
  EXPECT_TRUE(copies([&](void* t) { return alone.AllToAll(data, t, 4, kType); }));
  EXPECT_TRUE(copies([&](void* t) { return alone.AllToAllV(data, whole, t, whole, kType); }));
  EXPECT_TRUE(copies([&](void* t) { return alone.AllGatherV(data, 4, t, whole, kType); }));
  EXPECT_TRUE(copies([&](void* t) { return alone.ReduceScatterV(data, whole, t, 4, kType, ReduceOp::kSum); }));
  EXPECT_TRUE(copies([&](void* t) { return alone.Reduce(data, t, 4, kType, ReduceOp::kSum, 0); }));
  EXPECT_TRUE(copies([&](void* t) { return alone.Scatter(data, t, 4, kType, 0); }));
  alone.Broadcast(source.data(), 4, kType, 0).Wait();
  alone.BatchSendReceive({}, kType).Wait();
  alone.Barrier().Wait();
  EXPECT_EQ(ToHost<float>(source), values);
}

}  // namespace
}  // namespace trireme
