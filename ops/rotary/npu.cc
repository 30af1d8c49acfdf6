#include "ops/rotary/npu.h"

#include <string>

#include "ops/npu_call.h"

namespace trireme::npu {

at::Tensor Rotate(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine) {
  return Call("npu::npu_rotary_mul", {x, cosine, sine, std::string("half")})[0].toTensor();
}

}  // namespace trireme::npu
