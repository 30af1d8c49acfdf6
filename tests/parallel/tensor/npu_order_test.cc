// On device npu: operators, our kernels and collectives keep their order without the host waiting, whatever
// queue torch_npu has in front of its stream (TASK_QUEUE_ENABLE, set by whoever starts this test). Each case
// first puts something slow into that queue and onto the stream: whatever overtakes it computes with old
// values.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "core/npu/npu.h"
#include "core/tensor/device_copies.h"
#include "core/tensor/tensor_devices.h"
#include "parallel/tensor/collectives.h"
#include "tests/core/comm/spmd.h"

namespace trireme {
namespace {

constexpr int64_t kElements = 4096;
constexpr auto kNap = std::chrono::milliseconds(30);

class NpuOrder : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const TensorDevice& tensors = NpuEntry().open(TestDevice().index());
    options_ = at::TensorOptions(at::kFloat).device(tensors.torch());
    const Grids grids = MakeGrids(TestJob().world(), {.tensor = TestJob().world()});
    const GroupPlan plan(grids, {{.name = "tp", .axes = {"tp"}, .buffer_mb = 16}});
    groups_ =
        std::make_unique<CommunicatorSet>(TestJob(), TestDevice(), plan, CommOptions{.compute = tensors.compute()});
  }
  static void TearDownTestSuite() { groups_.reset(); }

  static Npu& TheNpu() { return Npu::Open(TestDevice().index()); }
  static Communicator& Group() { return groups_->Get("tp"); }

  // Blocks the queue's own thread, and then the stream.
  static void HoldUp() {
    TheNpu().bridge().Launch("hold up the queue", [](aclrtStream stream) {
      std::this_thread::sleep_for(kNap);
      Stream::Borrow(stream).RunOnHost([] { std::this_thread::sleep_for(kNap); });
    });
  }

  static void ExpectAll(const at::Tensor& values, double wanted) {
    const at::Tensor host = values.cpu();
    EXPECT_EQ(host.min().item<double>(), wanted);
    EXPECT_EQ(host.max().item<double>(), wanted);
  }

  static inline at::TensorOptions options_;
  static inline std::unique_ptr<CommunicatorSet> groups_;
};

// Its memory may be what a queued operator still reads, and the host changes its own at once.
TEST_F(NpuOrder, AnUploadOvertakesNothing) {
  const at::Device device = options_.device();
  for (int round = 1; round <= 5; ++round) {
    at::Tensor old = at::full({kElements}, 1, options_), host = at::full({kElements}, round, at::kFloat);
    HoldUp();
    const at::Tensor tripled = old * 3;
    old.reset();
    const at::Tensor x = Upload(host, device), next = Upload(host + 1, device);
    host.fill_(-1);
    ExpectAll(x + next, 2 * round + 1);
    ExpectAll(tripled, 3);
  }
}

TEST_F(NpuOrder, ACollectiveUsesWhatWasComputedBeforeIt) {
  for (int round = 1; round <= 5; ++round) {
    const at::Tensor x = at::zeros({kElements}, options_);
    HoldUp();
    x.fill_(round + Group().rank());
    Pending pending = StartAllReduce(x, Group());
    pending.Wait();
    double wanted = 0;
    for (int rank = 0; rank < Group().size(); ++rank) wanted += round + rank;
    ExpectAll(x * 2, 2 * wanted);
  }
}

TEST_F(NpuOrder, TheHostContinuesWhileACollectiveWaits) {
  const at::Tensor x = at::ones({kElements}, options_);
  TheNpu().Flushed().Synchronize();
  TheNpu().bridge().Launch("hold up the stream", [](aclrtStream stream) {
    Stream::Borrow(stream).RunOnHost([] { std::this_thread::sleep_for(10 * kNap); });
  });
  Pending pending = StartAllReduce(x, Group());
  EXPECT_FALSE(pending.done()) << "the collective did not wait for the stream";
  pending.Wait();
  const at::Tensor y = x + 1;
  EXPECT_FALSE(TheNpu().Current().idle()) << "the host waited";
  ExpectAll(y, Group().size() + 1);
}

TEST_F(NpuOrder, AKernelRunsInStreamOrder) {
  for (int round = 0; round < 5; ++round) {
    const at::Tensor x = at::zeros({kElements}, options_);
    HoldUp();
    x.fill_(3);
    void* data = x.data_ptr();
    TheNpu().bridge().Launch("zero the first half", [data](aclrtStream stream) {
      constexpr size_t kBytes = kElements / 2 * sizeof(float);
      ASSERT_EQ(aclrtMemsetAsync(data, kBytes, 0, kBytes, stream), ACL_SUCCESS);
    });
    const at::Tensor y = x + 1;
    x.fill_(100);
    ExpectAll(y.narrow(0, 0, kElements / 2), 1);
    ExpectAll(y.narrow(0, kElements / 2, kElements / 2), 4);
  }
}

TEST_F(NpuOrder, MemoryOfACollectiveIsNotReusedByTheNextTensor) {
  for (int round = 0; round < 20; ++round) {
    at::Tensor x = at::ones({kElements}, options_);
    HoldUp();
    at::Tensor sum = at::empty({kElements * Group().size()}, options_);
    Pending pending = StartAllGather(x, sum, Group());
    x.reset();
    const at::Tensor other = at::full({kElements}, 7, options_);  // x's memory, were it free
    pending.Wait();
    ExpectAll(sum, 1);
    ExpectAll(other, 7);
  }
}

TEST_F(NpuOrder, TheAllocatorReportsItsMemory) {
  Npu& npu = TheNpu();
  constexpr int64_t kBytes = 64 << 20;
  npu.ResetPeak();
  const NpuMemory before = npu.Memory();
  {
    const at::Tensor x = at::empty({kBytes / 4}, options_);
  }
  const NpuMemory after = npu.Memory();
  EXPECT_EQ(after.allocated, before.allocated);
  constexpr int64_t kRounding = 1024;  // the allocator's own
  EXPECT_GE(after.peak_allocated, before.allocated + kBytes);
  EXPECT_LE(after.peak_allocated, before.allocated + kBytes + kRounding);
  EXPECT_GE(after.reserved, kBytes);
}

}  // namespace
}  // namespace trireme
