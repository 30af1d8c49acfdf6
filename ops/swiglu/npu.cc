#include "ops/swiglu/npu.h"

#include "ops/npu_call.h"

namespace trireme::npu {

at::Tensor SwiGlu(const at::Tensor& gate_up) { return Call("npu::npu_swiglu", {gate_up, int64_t{-1}})[0].toTensor(); }

at::Tensor SwiGluBackward(const at::Tensor& gradient, const at::Tensor& gate_up) {
  return Call("npu::npu_swiglu_backward", {gradient, gate_up, int64_t{-1}})[0].toTensor();
}

}  // namespace trireme::npu
