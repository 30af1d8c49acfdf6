// Experts of one rank on device npu, where only the device knows what was chosen, against the cpu: positions and
// counts, which choices a capacity leaves, the rows of a dispatch, grouped matmuls and their gradients. Started by
// tests/parity/npu_start, on the twin. How often the host waits is counted by tests/parity/npu_waits_test.py.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/tensor/device_copies.h"
#include "core/tensor/tensor_devices.h"
#include "ops/grouped_linear/grouped_linear.h"
#include "parallel/experts/capacity.h"
#include "parallel/experts/dispatch.h"
#include "parallel/experts/sort_by_expert.h"
#include "tests/core/comm/spmd.h"

namespace trireme {
namespace {

constexpr int64_t kExperts = 6, kWidth = 8;

class NpuExperts : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    TensorDevice& npu = NpuEntry().open(TestDevice().index());
    device_ = npu.torch();
    const Grids grids = MakeGrids(1, {});
    const GroupPlan plan(grids, {{.name = "one", .axes = {"tp"}, .buffer_mb = 1}});
    groups_ = std::make_unique<CommunicatorSet>(TestJob(), TestDevice(), plan, CommOptions{.compute = npu.compute()});
    host_groups_ = std::make_unique<CommunicatorSet>(TestJob(), TestDevice(), plan, CommOptions{.host_memory = true});
  }
  static void TearDownTestSuite() {
    groups_.reset();
    host_groups_.reset();
  }

  static inline at::Device device_ = at::kCPU;
  static inline std::unique_ptr<CommunicatorSet> groups_, host_groups_;
};

// Expert 1 and the last get nothing; some choices are not dispatched.
at::Tensor RandomChoices(int64_t tokens, int64_t k) {
  const at::Tensor chosen = at::randint(-1, kExperts - 1, {tokens, k}, at::kLong);
  return chosen.masked_fill(chosen.eq(1), 2);
}

TEST_F(NpuExperts, AreSortedAsOnTheHost) {
  for (const int64_t tokens : {1, 7, 300}) {
    const at::Tensor chosen = RandomChoices(tokens, 3);
    const ByExpert wanted = SortByExpert(chosen, kExperts), found = SortByExpert(Upload(chosen, device_), kExperts);
    EXPECT_TRUE(found.positions.cpu().equal(wanted.positions));
    EXPECT_TRUE(found.counts.cpu().equal(wanted.counts));
  }
  const at::Tensor none = at::full({4, 2}, -1, at::kLong);
  EXPECT_TRUE(SortByExpert(Upload(none, device_), kExperts).counts.cpu().eq(0).all().item<bool>());
}

// Few different weights, so that many are equal; tokens in another order than they stand.
TEST_F(NpuExperts, KeepTheLargestAsOnTheHost) {
  for (const int64_t capacity : {0, 1, 9, 400}) {
    constexpr int64_t kTokens = 90, kChoices = 3;
    const at::Tensor chosen = RandomChoices(kTokens, kChoices), order = at::randperm(kTokens, at::kLong);
    const at::Tensor weights = at::randint(1, 5, {kTokens, kChoices}, at::kFloat) / 4;
    const at::Tensor wanted = chosen.clone();
    KeepLargest({wanted.data_ptr<int64_t>(), static_cast<size_t>(wanted.numel())},
                {weights.data_ptr<float>(), static_cast<size_t>(weights.numel())},
                {order.data_ptr<int64_t>(), static_cast<size_t>(kTokens)}, kExperts, capacity);
    const at::Tensor found =
        KeptChoices(Upload(chosen, device_), Upload(weights, device_), Upload(order, device_), kExperts, capacity);
    EXPECT_TRUE(found.cpu().equal(wanted)) << capacity;
    EXPECT_TRUE(KeptChoices(chosen, weights, order, kExperts, capacity).equal(wanted)) << capacity;
  }
}

struct Outcome {
  at::Tensor y, x_gradient, weight_gradient;
};

// Two passes: the first finds a stale gradient, the second adds to it.
Outcome Pass(const at::Tensor& x, const at::Tensor& chosen, const at::Tensor& value, Communicator& group) {
  const Weight weight{.name = "experts",
                      .value = value,
                      .gradient = at::full(value.sizes(), 5, value.options().dtype(at::kFloat)),
                      .stale = true};
  const ExpertParallel parallel{group};
  Outcome outcome;
  for (int pass = 0; pass < 2; ++pass) {
    const auto way = std::make_shared<const Dispatch>(chosen, kExperts, parallel);
    EXPECT_EQ(way->ends()->on_host(), x.is_cpu());
    const at::Tensor leaf = x.detach().requires_grad_();
    const at::Tensor rows = GroupedLinear(LinearInput(Dispatch::ToExperts(way, leaf)), weight, way->ends());
    outcome.y = Dispatch::FromExperts(way, rows);
    outcome.x_gradient = torch::autograd::grad({outcome.y}, {leaf}, {at::ones_like(outcome.y)})[0];
    EXPECT_EQ(way->received().item<int64_t>(), chosen.ge(0).sum().item<int64_t>());
  }
  outcome.weight_gradient = weight.gradient;
  return outcome;
}

TEST_F(NpuExperts, ComputeAsOnTheCpu) {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t tokens : {1, 40}) {
      const at::Tensor x = at::randn({tokens, kWidth}).to(type), chosen = RandomChoices(tokens, 2);
      const at::Tensor value = at::randn({kExperts, 10, kWidth}).to(type);
      const Outcome wanted = Pass(x, chosen, value, host_groups_->Get("one"));
      const Outcome found = Pass(x.to(device_), Upload(chosen, device_), value.to(device_), groups_->Get("one"));
      const double close = type == at::kFloat ? 1e-5 : 3e-2;
      for (const auto& [mine, theirs] : {std::pair(found.y, wanted.y),
                                         {found.x_gradient, wanted.x_gradient},
                                         {found.weight_gradient, wanted.weight_gradient}}) {
        EXPECT_TRUE(at::allclose(mine.cpu().to(at::kFloat), theirs.to(at::kFloat), close, close)) << tokens;
      }
    }
  }
}

}  // namespace
}  // namespace trireme
