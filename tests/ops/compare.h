// For the operators' tests: an operator against the plain formula in fp64 under ATen's autograd: values,
// input gradients and weight gradients, in fp32 and bf16, by the fast version and by the reference.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/tensor/weight.h"
#include "ops/choose.h"

namespace trireme {

inline double RelativeError(const at::Tensor& found, const at::Tensor& wanted) {
  const double size = wanted.to(at::kDouble).norm().item<double>();
  return (found.to(at::kDouble) - wanted.to(at::kDouble)).norm().item<double>() / (size > 0 ? size : 1.0);
}

inline at::Tensor Random(at::IntArrayRef shape, at::ScalarType type = at::kFloat) {
  return at::randn(shape, at::kFloat).to(type);
}

inline Weight TrainedWeight(at::IntArrayRef shape, at::ScalarType type = at::kFloat) {
  return {"weight", Random(shape, type), at::zeros(shape, at::kFloat)};
}

// How far a value may be from fp64: one or two roundings in the type, and sums of such.
inline double Tolerance(at::ScalarType type) { return type == at::kFloat ? 2e-6 : (type == at::kHalf ? 1e-3 : 8e-3); }

using Tensors = std::vector<at::Tensor>;

struct Comparison {
  Tensors inputs;                // each gets a gradient
  std::vector<Weight*> weights;  // accumulated into, so zero them first
  std::function<Tensors(const Tensors&)> op;
  std::function<Tensors(const Tensors& inputs, const Tensors& weights)> plain;  // in fp64
};

// `context` names the case in a failure.
inline void Compare(const Comparison& c, const std::string& context) {
  const double tolerance = Tolerance(c.inputs[0].scalar_type());
  Tensors inputs, wide, wide_weights;
  for (const at::Tensor& x : c.inputs) {
    inputs.push_back(x.detach().requires_grad_());
    wide.push_back(x.detach().to(at::kDouble).requires_grad_());
  }
  for (Weight* weight : c.weights) {
    wide_weights.push_back(weight->value.to(at::kDouble).requires_grad_());
    if (weight->trained()) weight->gradient.zero_();
  }
  const Tensors y = c.op(inputs), wide_y = c.plain(wide, wide_weights);
  Tensors gradients, wide_gradients;
  for (size_t i = 0; i < y.size(); ++i) {
    ASSERT_EQ(y[i].sizes(), wide_y[i].sizes()) << context;
    EXPECT_LT(RelativeError(y[i], wide_y[i]), tolerance) << context << ", output " << i;
    gradients.push_back(Random(y[i].sizes(), y[i].scalar_type()));
    wide_gradients.push_back(gradients.back().to(at::kDouble));
  }
  torch::autograd::backward(y, gradients);
  torch::autograd::backward(wide_y, wide_gradients);
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(inputs[i].grad().scalar_type(), inputs[i].scalar_type()) << context;
    EXPECT_LT(RelativeError(inputs[i].grad(), wide[i].grad()), tolerance) << context << ", input " << i;
  }
  for (size_t i = 0; i < c.weights.size(); ++i) {
    if (!c.weights[i]->trained()) continue;
    EXPECT_LT(RelativeError(c.weights[i]->gradient, wide_weights[i].grad()), tolerance) << context << ", weight " << i;
  }
}

// Runs `body(type, context)` for both types by the loops and by the reference, and for all three by the
// kernel.
inline void ForEveryVersion(const std::function<void(at::ScalarType, const std::string&)>& body) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const std::string name = type == at::kFloat ? "fp32" : "bf16";
    at::manual_seed(1);
    body(type, name + " fast");
    at::manual_seed(1);
    const ReferenceOnly guard;
    body(type, name + " reference");
  }
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    at::manual_seed(1);
    const KernelsFirst guard;
    body(type, Concat(c10::toString(type), " kernel"));
  }
}

}  // namespace trireme
