// SwiGLU by torch_npu's fused operator. Plain calls: ops/swiglu/swiglu.cc has the autograd rule.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme::npu {

// silu(first half of the last dim) · second half
at::Tensor SwiGlu(const at::Tensor& gate_up);
at::Tensor SwiGluBackward(const at::Tensor& gradient, const at::Tensor& gate_up);

}  // namespace trireme::npu
