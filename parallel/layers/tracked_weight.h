// A weight as a tensor of autograd, for operators that know none: small weights used in plain expressions.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/tensor/weight.h"

namespace trireme {

// The weight's value in fp32, whose gradient is added to the weight's sum. activation: of the pass; a weight that is
// trained gets its gradient where that one requires a gradient. The weight outlives the backward pass.
at::Tensor TrackedWeight(const Weight& weight, const at::Tensor& activation);

}  // namespace trireme
