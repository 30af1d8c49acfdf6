// y = x / sqrt(mean(x²) + eps) · weight over the last dim, computed in fp32 and rounded once.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/tensor/weight.h"

namespace trireme {

// x: [..., size], weight: [size]. The weight outlives the backward pass.
at::Tensor RmsNorm(const at::Tensor& x, const Weight& weight, double eps);

}  // namespace trireme
