// Adding gradients into their fp32 sum.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme {

// sum: fp32, contiguous; addend: any dtype, the same shape.
void AddInto(const at::Tensor& sum, const at::Tensor& addend);

}  // namespace trireme
