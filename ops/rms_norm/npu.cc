#include "ops/rms_norm/npu.h"

#include "ops/npu_call.h"

namespace trireme::npu {
namespace {

std::pair<at::Tensor, at::Tensor> Two(const torch::jit::Stack& results) {
  return {results[0].toTensor(), results[1].toTensor()};
}

}  // namespace

std::pair<at::Tensor, at::Tensor> RmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return Two(Call("npu::npu_rms_norm", {x, weight, eps}));
}

std::pair<at::Tensor, at::Tensor> RmsNormBackward(const at::Tensor& y_gradient, const at::Tensor& x,
                                                  const at::Tensor& weight, const at::Tensor& scale) {
  return Two(Call("npu::npu_rms_norm_backward", {y_gradient, x, weight, scale}));
}

}  // namespace trireme::npu
