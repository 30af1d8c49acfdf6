// y = x Wᵀ (+ b), with the weight's gradient added to its fp32 sum. The matmuls are those of libtorch's math
// libraries, which use the machine's matrix units; none copies a transposed operand.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <utility>

#include "core/tensor/weight.h"

namespace trireme {

// A Linear's input. With `again` the value is not saved for the weight gradient but recomputed by it.
struct LinearInput {
  LinearInput(const at::Tensor& value, std::function<at::Tensor()> again = {})  // NOLINT: implicit on purpose
      : value(value), again(std::move(again)) {}
  at::Tensor value;  // [tokens, in]
  std::function<at::Tensor()> again;
};

// weight: [out, in], bias: [out] or nullptr. Weights outlive the backward pass.
at::Tensor Linear(const LinearInput& x, const Weight& weight, const Weight* bias = nullptr);

// weight.gradient += output_gradientᵀ x, immediately, if the weight is trained. output_gradient:
// [tokens, out]. The weight may have more than two dims, the last of which are `in` together.
void AddWeightGradient(const Weight& weight, const at::Tensor& output_gradient, const at::Tensor& x);

}  // namespace trireme
