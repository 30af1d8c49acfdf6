// y = x Wᵀ (+ b), with the weight's gradient added to its fp32 sum. The matmuls are those of libtorch's math
// libraries, which use the machine's matrix units; none copies a transposed operand.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <utility>

#include "core/tensor/weight.h"
#include "ops/fp8_linear/split_contraction.h"

namespace trireme {

// A Linear's input. With `again` the value is not saved for the weight gradient but recomputed by it.
struct LinearInput {
  LinearInput(const at::Tensor& value, std::function<at::Tensor()> again = {},  // NOLINT: implicit on purpose
              const SplitContraction* split = nullptr)
      : value(value), again(std::move(again)), split(split) {}
  at::Tensor value;  // [tokens, in]
  std::function<at::Tensor()> again;
  const SplitContraction* split = nullptr;  // for weights in e4m3; nullptr: rows are whole. Outlives the backward pass
};

// The products alone, of a plain, packed or e4m3 weight: x Wᵀ (+ b), and the gradient of x.
at::Tensor ProductOf(const LinearInput& x, const Weight& weight, const Weight* bias);
at::Tensor InputGradientOf(const at::Tensor& output_gradient, const Weight& weight, const SplitContraction* split);

// weight: [out, in], bias: [out] or nullptr. Weights outlive the backward pass.
at::Tensor Linear(const LinearInput& x, const Weight& weight, const Weight* bias = nullptr);

// weight.gradient += output_gradientᵀ x, immediately, if the weight is trained. output_gradient:
// [tokens, out]. The weight may have more than two dims, the last of which are `in` together.
void AddWeightGradient(const Weight& weight, const at::Tensor& output_gradient, const at::Tensor& x);

}  // namespace trireme
