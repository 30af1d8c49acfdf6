// y = x Wᵀ (+ b), with the weight's gradient added to its fp32 sum. The product itself is ATen's, which uses
// the machine's matrix units.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/tensor/weight.h"

namespace trireme {

// x: [tokens, in], weight: [out, in], bias: [out] or nullptr. Weights outlive the backward pass.
at::Tensor Linear(const at::Tensor& x, const Weight& weight, const Weight* bias = nullptr);

}  // namespace trireme
