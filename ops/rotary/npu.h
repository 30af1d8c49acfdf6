// Rotary position embedding by torch_npu's fused operator. A plain call: ops/rotary/rotary.cc has the
// autograd rule.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme::npu {

// x [1, tokens, heads, dim] turned by tables of [1, tokens, 1, dim] in the type of x.
at::Tensor Rotate(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine);

}  // namespace trireme::npu
