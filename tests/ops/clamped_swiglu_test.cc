// What only experts of GPT-OSS have, against autograd of the plain formulas in fp64: the clamped SwiGLU over
// alternating gate and up, biases of experts, scaled by the tokens' weights or not, and the bias of a router.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "ops/grouped_linear/grouped_bias.h"
#include "ops/router/router.h"
#include "ops/swiglu/clamped_swiglu.h"

namespace trireme {
namespace {

double Error(const at::Tensor& found, const at::Tensor& wanted) {
  return ((found.to(at::kDouble) - wanted).norm() / wanted.norm()).item<double>();
}

at::Tensor Exact(const at::Tensor& x) { return x.detach().to(at::kDouble).requires_grad_(true); }
at::Tensor Leaf(const at::Tensor& x) { return x.detach().clone().requires_grad_(true); }

// All three regions of the clamps are met: inside, above, and below, where the gate has no limit.
TEST(ClampedSwiGlu, EqualsTheFormula) {
  at::manual_seed(3);
  constexpr double kLimit = 0.8, kAlpha = 1.3;
  const at::Tensor gate_up = Leaf(at::randn({7, 12})), weights = Leaf(at::rand({7}));
  const at::Tensor exact = Exact(gate_up), exact_weights = Exact(weights);
  const at::Tensor gate = exact.slice(1, 0, 12, 2).clamp_max(kLimit),
                   up = exact.slice(1, 1, 12, 2).clamp(-kLimit, kLimit);
  const at::Tensor wanted = (up + 1) * gate * (gate * kAlpha).sigmoid() * exact_weights.unsqueeze(1);
  const at::Tensor found = WeightedClampedSwiGlu(gate_up, weights, {.limit = kLimit, .alpha = kAlpha});
  EXPECT_LT(Error(found.detach(), wanted.detach()), 1e-6);
  EXPECT_TRUE(found.detach().equal(WeightedClampedSwiGluAgain(gate_up, weights, {.limit = kLimit, .alpha = kAlpha})));
  const at::Tensor gradient = at::randn(found.sizes());
  found.backward(gradient);
  wanted.backward(gradient.to(at::kDouble));
  EXPECT_LT(Error(gate_up.grad(), exact.grad()), 1e-6);
  EXPECT_LT(Error(weights.grad(), exact_weights.grad()), 1e-6);
}

Weight RandomBias(at::IntArrayRef shape) {
  return {.name = "bias", .value = at::randn(shape), .gradient = at::ones(shape)};
}

// Three experts, of which the second has no rows; in the second case the last row belongs to none.
class GroupedBias : public testing::TestWithParam<bool> {
 protected:
  GroupedBias() {
    at::manual_seed(4);
    const GroupEnds on_host = std::make_shared<const RowEnds>(std::vector<int64_t>{2, 2, 5});
    const GroupEnds on_device = std::make_shared<const RowEnds>(at::tensor({2, 2, 5}, at::kLong));
    ends_ = GetParam() ? on_device : on_host;
    y_ = Leaf(at::randn({GetParam() ? 6 : 5, 4}));
    bias_ = RandomBias({3, 4});
    expert_of_ = at::tensor({0, 0, 2, 2, 2}, at::kLong);
  }
  GroupEnds ends_;
  at::Tensor y_, expert_of_;
  Weight bias_;
};

TEST_P(GroupedBias, IsAddedToTheRowsOfEachExpert) {
  const at::Tensor found = AddGroupedBias(y_, bias_, ends_), gradient = at::randn(y_.sizes());
  const at::Tensor wanted = y_.detach().narrow(0, 0, 5) + bias_.value.index_select(0, expert_of_);
  EXPECT_TRUE(found.detach().narrow(0, 0, 5).allclose(wanted));
  found.backward(gradient);
  EXPECT_TRUE(y_.grad().equal(gradient));
  const at::Tensor sums = at::ones({3, 4}).index_add(0, expert_of_, gradient.narrow(0, 0, 5));
  EXPECT_TRUE(bias_.gradient.allclose(sums));
}

// Of two ranks that hold parts of the sum both compute the bias's gradient, one adds it and learns the weights'.
TEST_P(GroupedBias, IsScaledByWeightsAndAddedOnce) {
  const at::Tensor values = at::rand({y_.size(0)}), gradient = at::randn(y_.sizes());
  for (const bool adds : {true, false}) {
    bias_.gradient.fill_(1);
    const at::Tensor weights = Leaf(values);
    const at::Tensor found = AddWeightedGroupedBias(y_, weights, bias_, ends_, adds);
    const at::Tensor own = bias_.value.index_select(0, expert_of_), used = values.narrow(0, 0, 5).unsqueeze(1);
    const at::Tensor wanted = y_.detach().narrow(0, 0, 5) + (adds ? own * used : at::zeros_like(own));
    EXPECT_TRUE(found.detach().narrow(0, 0, 5).allclose(wanted));
    found.backward(gradient);
    const at::Tensor seen = gradient.narrow(0, 0, 5);
    EXPECT_TRUE(bias_.gradient.allclose(at::ones({3, 4}).index_add(0, expert_of_, seen * used)));
    EXPECT_EQ(weights.grad().defined(), adds);
    if (adds) EXPECT_TRUE(weights.grad().narrow(0, 0, 5).allclose((seen * own).sum(1)));
  }
}

INSTANTIATE_TEST_SUITE_P(Ends, GroupedBias, testing::Bool(),
                         [](const auto& info) { return info.param ? "OnDevice" : "OnHost"; });

TEST(RouterLogits, HaveABias) {
  at::manual_seed(6);
  const Weight weight{.name = "router", .value = at::randn({3, 5}), .gradient = at::zeros({3, 5})},
      bias = RandomBias({3});
  const at::Tensor x = Leaf(at::randn({4, 5}));
  const at::Tensor logits = RouterLogits(LinearInput(x), weight, &bias), gradient = at::randn({4, 3});
  EXPECT_TRUE(logits.detach().allclose(at::mm(x.detach(), weight.value.t()) + bias.value, 1e-5, 1e-6));
  logits.backward(gradient);
  EXPECT_TRUE(bias.gradient.allclose(gradient.sum(0) + 1));
}

}  // namespace
}  // namespace trireme
