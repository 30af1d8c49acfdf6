// A bias that is added after the ranks' partial sums are reduced, so that it counts once.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/tensor/weight.h"

namespace trireme {

// x: [tokens, size]; bias: [size] or nullptr. It outlives the backward pass.
at::Tensor AddBias(const at::Tensor& x, const Weight* bias);

}  // namespace trireme
