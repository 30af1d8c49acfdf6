// RMSNorm by torch_npu's fused operator. Plain calls: ops/rms_norm/rms_norm.cc has the autograd rule.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

namespace trireme::npu {

// y, and the scales ([..., 1] fp32) that the adjoint needs. The product with the weight is made in fp32.
std::pair<at::Tensor, at::Tensor> RmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps);

// Gradients of x and (fp32) of the weight.
std::pair<at::Tensor, at::Tensor> RmsNormBackward(const at::Tensor& y_gradient, const at::Tensor& x,
                                                  const at::Tensor& weight, const at::Tensor& scale);

}  // namespace trireme::npu
