// Every operator against the plain formula under autograd, in fp64-checked fp32: values, input gradients,
// weight gradients, and weight gradients put off.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/attention.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"
#include "ops/rotary.h"
#include "ops/swiglu.h"
#include "ops/weight_gradients.h"

namespace trireme {
namespace {

at::Tensor Random(at::IntArrayRef shape) { return at::randn(shape, at::kFloat); }

Weight TrainedWeight(at::IntArrayRef shape) {
  const at::Tensor value = Random(shape);
  return {"weight", value, at::zeros_like(value)};
}

double RelativeError(const at::Tensor& found, const at::Tensor& wanted) {
  const double size = wanted.to(at::kDouble).norm().item<double>();
  return (found.to(at::kDouble) - wanted.to(at::kDouble)).norm().item<double>() / (size > 0 ? size : 1.0);
}

at::Tensor Leaf(const at::Tensor& value) { return value.detach().to(at::kDouble).set_requires_grad(true); }

// Runs `op` on x and the plain formula in fp64 on copies of x and the weights, with the same output gradient.
template <typename Op, typename Plain>
void Compare(const at::Tensor& x_value, std::vector<Weight*> weights, Op op, Plain plain) {
  const at::Tensor x = x_value.detach().clone().set_requires_grad(true), wide_x = Leaf(x_value);
  std::vector<at::Tensor> wide_weights;
  for (const Weight* weight : weights) wide_weights.push_back(Leaf(weight->value));
  const at::Tensor y = op(x), wide_y = plain(wide_x, wide_weights);
  const at::Tensor gradient = Random(y.sizes());
  torch::autograd::backward({y}, {gradient});
  torch::autograd::backward({wide_y}, {gradient.to(at::kDouble)});
  EXPECT_LT(RelativeError(y, wide_y), 1e-5);
  EXPECT_LT(RelativeError(x.grad(), wide_x.grad()), 1e-5);
  for (size_t i = 0; i < weights.size(); ++i) {
    EXPECT_LT(RelativeError(weights[i]->gradient, wide_weights[i].grad()), 1e-5) << "weight " << i;
  }
}

TEST(Ops, LinearWithBias) {
  Weight weight = TrainedWeight({5, 7}), bias = TrainedWeight({5});
  Compare(
      Random({11, 7}), {&weight, &bias}, [&](const at::Tensor& x) { return Linear(x, weight, &bias); },
      [](const at::Tensor& x, const auto& w) { return at::linear(x, w[0], w[1]); });
}

TEST(Ops, GradientsAreAddedAndFrozenWeightsLeftAlone) {
  Weight weight = TrainedWeight({5, 7}), frozen{"frozen", Random({5}), {}};
  const at::Tensor x = Random({3, 7}).set_requires_grad(true);
  torch::autograd::backward({Linear(x, weight, &frozen)}, {at::ones({3, 5})});
  const at::Tensor once = weight.gradient.clone();
  torch::autograd::backward({Linear(x, weight, &frozen)}, {at::ones({3, 5})});
  EXPECT_LT(RelativeError(weight.gradient, once * 2), 1e-6);
  EXPECT_FALSE(frozen.gradient.defined());
}

TEST(Ops, WeightGradientsWaitUntilTheyAreRun) {
  Weight weight = TrainedWeight({5, 7});
  const at::Tensor x = Random({3, 7}).set_requires_grad(true);
  Deferral deferral;
  torch::autograd::backward({Linear(x, weight)}, {at::ones({3, 5})});
  EXPECT_TRUE(x.grad().defined());
  EXPECT_EQ(weight.gradient.abs().sum().item<float>(), 0.0f);
  for (const auto& work : deferral.Take()) work();
  EXPECT_LT(RelativeError(weight.gradient, at::ones({5, 3}).mm(x.detach())), 1e-6);
  EXPECT_TRUE(deferral.Take().empty());
}

TEST(Ops, RmsNorm) {
  Weight weight = TrainedWeight({16});
  Compare(
      Random({3, 4, 16}), {&weight}, [&](const at::Tensor& x) { return RmsNorm(x, weight, 1e-6); },
      [](const at::Tensor& x, const auto& w) {
        return x * (x.square().mean(-1, true) + 1e-6).rsqrt() * w[0];
      });
}

TEST(Ops, RotaryTurnsPairsByPosition) {
  const at::Tensor positions = at::tensor({0, 1, 5}, at::kLong);
  const RotaryTable table = MakeRotaryTable(positions, {1.0, 0.1});
  Compare(
      Random({3, 2, 4}), {}, [&](const at::Tensor& x) { return Rotate(x, table); },
      [&](const at::Tensor& x, const auto&) {
        const at::Tensor angle =
            positions.to(at::kDouble).view({3, 1, 1}) * at::tensor({1.0, 0.1}, at::kDouble);
        const at::Tensor a = x.narrow(2, 0, 2), b = x.narrow(2, 2, 2);
        return at::cat({a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()}, 2);
      });
}

TEST(Ops, SwiGlu) {
  Compare(
      Random({6, 10}), {}, [](const at::Tensor& x) { return SwiGlu(x); },
      [](const at::Tensor& x, const auto&) { return at::silu(x.narrow(1, 0, 5)) * x.narrow(1, 5, 5); });
}

TEST(Ops, CausalAttentionWithGroupedHeads) {
  const int64_t heads = 4, kv_heads = 2, dim = 8;
  auto split = [&](const at::Tensor& x) {
    return std::tuple{x.narrow(2, 0, heads), x.narrow(2, heads, kv_heads),
                      x.narrow(2, heads + kv_heads, kv_heads)};
  };
  Compare(
      Random({2, 5, heads + 2 * kv_heads, dim}), {},
      [&](const at::Tensor& x) {
        auto [q, k, v] = split(x);
        return CausalAttention(q, k, v);
      },
      [&](const at::Tensor& x, const auto&) {
        auto [q, k, v] = split(x);
        const at::Tensor keys = k.repeat_interleave(heads / kv_heads, 2).transpose(1, 2);
        const at::Tensor values = v.repeat_interleave(heads / kv_heads, 2).transpose(1, 2);
        at::Tensor scores = q.transpose(1, 2).matmul(keys.transpose(2, 3)) / std::sqrt(double(dim));
        scores = scores.masked_fill(at::ones({5, 5}, at::kBool).triu(1), -INFINITY);
        return scores.softmax(-1).matmul(values).transpose(1, 2);
      });
}

}  // namespace
}  // namespace trireme
