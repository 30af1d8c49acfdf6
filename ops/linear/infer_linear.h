// y = x Wᵀ (+ b) in generation: few rows, or parts of prompts, without a gradient. Training's is linear.h.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/tensor/weight.h"
#include "ops/fp8_linear/split_contraction.h"

namespace trireme {

// x: [rows, in], weight: [out, in], bias: [out] or nullptr; split: as LinearInput's.
at::Tensor InferLinear(const at::Tensor& x, const Weight& weight, const Weight* bias = nullptr,
                       const SplitContraction* split = nullptr);

}  // namespace trireme
