// Calls run concurrently with the host and with other streams, in the order that events impose.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "core/device/event.h"
#include "core/device/stream.h"
#include "tests/core/comm/spmd.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

double SecondsOf(const std::function<void()>& run) {
  TestJob().Barrier();
  const Clock::time_point start = Clock::now();
  run();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

TEST(Asynchrony, ACallStartsAfterTheStreamItWaitsFor) {
  const Stream compute;
  const DeviceBuffer data = ToDevice(std::vector<float>(1000, 0));
  const DeviceBuffer ones = ToDevice(std::vector<float>(1000, 1));
  compute.RunOnHost([] { std::this_thread::sleep_for(milliseconds(30)); });
  CopyAsync(data.data(), ones.data(), ones.bytes(), CopyKind::kDeviceToDevice, compute);
  const Work work = World().AllReduce(data.data(), data.data(), 1000, DType::kFp32, ReduceOp::kSum, compute);
  EXPECT_FALSE(work.done());  // the host did not wait
  work.Wait();
  EXPECT_EQ(ToHost<float>(data), std::vector<float>(1000, static_cast<float>(World().size())));
}

TEST(Asynchrony, ACallStartsAfterTheEventItWaitsFor) {
  const Stream compute;
  Event ready;
  const DeviceBuffer data = ToDevice(std::vector<float>(10, 0));
  const DeviceBuffer ones = ToDevice(std::vector<float>(10, 1));
  compute.RunOnHost([] { std::this_thread::sleep_for(milliseconds(30)); });
  CopyAsync(data.data(), ones.data(), ones.bytes(), CopyKind::kDeviceToDevice, compute);
  ready.Record(compute);
  World().AllReduce(data.data(), data.data(), 10, DType::kFp32, ReduceOp::kSum, ready).Wait();
  EXPECT_EQ(ToHost<float>(data), std::vector<float>(10, static_cast<float>(World().size())));
}

TEST(Asynchrony, AStreamContinuesAfterTheCallItWaitsOn) {
  const Stream before;
  const Stream behind;
  const DeviceBuffer data = ToDevice(std::vector<float>(10, 1));
  const DeviceBuffer copy = ToDevice(std::vector<float>(10, -1));
  before.RunOnHost([] { std::this_thread::sleep_for(milliseconds(30)); });
  const Work work = World().AllReduce(data.data(), data.data(), 10, DType::kFp32, ReduceOp::kSum, before);
  work.WaitOn(behind);
  CopyAsync(copy.data(), data.data(), data.bytes(), CopyKind::kDeviceToDevice, behind);
  EXPECT_FALSE(behind.idle());
  behind.Synchronize();
  EXPECT_TRUE(work.done());
  EXPECT_EQ(ToHost<float>(copy), std::vector<float>(10, static_cast<float>(World().size())));
}

TEST(Asynchrony, GroupsDoNotWaitForEachOther) {
  const GroupPlan plan(MakeGrids(TestJob().world(), {}),
                       {{.name = "first", .axes = {"dp"}, .buffer_mb = 4},
                        {.name = "second", .axes = {"dp"}, .lane = GroupLane::kGradient, .buffer_mb = 4}});
  const CommunicatorSet groups(TestJob(), TestDevice(), plan, {});
  const Stream busy;
  std::atomic<bool> open{false};
  busy.RunOnHost([&open] {
    while (!open) std::this_thread::sleep_for(milliseconds(1));
  });
  const Work held = groups.Get("first").Barrier(busy);
  groups.Get("second").Barrier().Wait();  // would never return if it waited for the other
  EXPECT_FALSE(held.done());
  open = true;
  held.Wait();
}

// The sleeping task uses no core, so both together may take hardly longer than the longer one.
TEST(Asynchrony, AnAllReduceOverlapsASleepingTask) {
  constexpr size_t kCount = 16 << 20;
  constexpr int kTries = 8;
  const DeviceBuffer source = ToDevice(std::vector<float>(kCount, 1));
  const DeviceBuffer target(source.bytes());
  const Stream other;
  const auto all_reduce = [&] {
    return World().AllReduce(source.data(), target.data(), kCount, DType::kFp32, ReduceOp::kSum);
  };
  all_reduce().Wait();
  double best = 1e9;
  for (int i = 0; i < kTries && best > 1.15; ++i) {
    const double alone = SecondsOf([&] { all_reduce().Wait(); });
    const auto nap = std::chrono::duration<double>(TestJob().Max(alone));
    const double both = SecondsOf([&] {
      other.RunOnHost([nap] { std::this_thread::sleep_for(nap); });
      const Work work = all_reduce();
      work.Wait();
      other.Synchronize();
    });
    best = std::min(best, TestJob().Max(both) / nap.count());
  }
  EXPECT_LE(best, 1.15) << "an all-reduce and a task that sleeps as long, over the longer of the two";
}

}  // namespace
}  // namespace trireme
