// On device cuda: torch's operators and collectives keep their order without the host waiting. Each case
// first puts something slow onto torch's stream: whatever overtakes it computes with old values. With one
// rank a group is an identity; several ranks run NCCL.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "core/tensor/tensor_devices.h"
#include "parallel/tensor/collectives.h"
#include "tests/core/comm/spmd.h"

namespace trireme {
namespace {

constexpr int64_t kElements = 1 << 20;
constexpr auto kNap = std::chrono::milliseconds(30);

class CudaOrder : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    tensors_ = &CudaEntry().open(TestDevice().index());
    options_ = at::TensorOptions(at::kFloat).device(tensors_->torch());
    const Grids grids = MakeGrids(TestJob().world(), {.tensor = TestJob().world()});
    const GroupPlan plan(grids, {{.name = "tp", .axes = {"tp"}, .buffer_mb = 16}});
    groups_ =
        std::make_unique<CommunicatorSet>(TestJob(), TestDevice(), plan, CommOptions{.compute = tensors_->compute()});
  }
  static void TearDownTestSuite() { groups_.reset(); }

  static Communicator& Group() { return groups_->Get("tp"); }
  static Stream Computing() { return tensors_->compute()->Current(); }

  static void HoldUp() {
    Computing().RunOnHost([] { std::this_thread::sleep_for(kNap); });
  }

  static void ExpectAll(const at::Tensor& values, double wanted) {
    const at::Tensor host = values.cpu();
    EXPECT_EQ(host.min().item<double>(), wanted);
    EXPECT_EQ(host.max().item<double>(), wanted);
  }

  static inline TensorDevice* tensors_ = nullptr;
  static inline at::TensorOptions options_;
  static inline std::unique_ptr<CommunicatorSet> groups_;
};

TEST_F(CudaOrder, AnAllReduceRunsBetweenTwoKernels) {
  for (int round = 1; round <= 10; ++round) {
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

TEST_F(CudaOrder, TheHostContinuesWhileACollectiveWaits) {
  const at::Tensor x = at::ones({kElements}, options_);
  ExpectAll(x + 1, 2);  // a kernel's first launch loads it and synchronises
  Computing().RunOnHost([] { std::this_thread::sleep_for(10 * kNap); });
  Pending pending = StartAllReduce(x, Group());
  EXPECT_FALSE(pending.done()) << "the collective did not wait for torch's stream";
  pending.Wait();
  const at::Tensor y = x + 1;
  EXPECT_FALSE(Computing().idle()) << "the host waited";
  ExpectAll(y, Group().size() + 1);
}

TEST_F(CudaOrder, MemoryOfACollectiveIsNotReusedByTheNextTensor) {
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

// A query whose answer is "not yet" must not look like a failed launch to torch's next operator.
TEST_F(CudaOrder, AQueryIsNotAnError) {
  HoldUp();
  EXPECT_FALSE(Computing().idle());
  ExpectAll(at::ones({8}, options_) + 1, 2);
}

TEST_F(CudaOrder, TheAllocatorReportsItsMemory) {
  constexpr int64_t kBytes = 64 << 20;
  tensors_->ResetTensorPeak();
  const int64_t before = tensors_->tensor_bytes();
  {
    const at::Tensor x = at::empty({kBytes / 4}, options_);
    EXPECT_GE(tensors_->tensor_bytes(), before + kBytes);
  }
  EXPECT_EQ(tensors_->tensor_bytes(), before);
  EXPECT_GE(tensors_->tensor_peak_bytes(), before + kBytes);
}

}  // namespace
}  // namespace trireme
