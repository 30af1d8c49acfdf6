// Which version of an operator runs: the fast one for CPU tensors of fp32 and bf16, torch_npu's fused one
// (npu_fused.h) on an npu where there is one, the ATen reference for everything else. Also the small bridge
// from tensors to the kernels of ops/cpu, which know no torch.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "ops/cpu/simd.h"

namespace trireme {

// Whether the fast version takes this tensor: dense CPU memory of fp32 or bf16, and no ReferenceOnly alive.
bool FastOnCpu(const at::Tensor& tensor);

// Whether a weight can be read as the input is: the same type, without gaps.
inline bool SameKind(const at::Tensor& input, const at::Tensor& weight) {
  return weight.scalar_type() == input.scalar_type() && weight.is_contiguous();
}

// Whether a ReferenceOnly is alive.
bool OnlyReference();

// While it lives, operators called on this thread take the reference: for tests and measurements.
class ReferenceOnly {
 public:
  ReferenceOnly();
  ~ReferenceOnly();
  ReferenceOnly(const ReferenceOnly&) = delete;
  ReferenceOnly& operator=(const ReferenceOnly&) = delete;

 private:
  bool outer_;
};

// Calls work(float{}) or work(cpu::Bf16{}), as the tensor's elements are.
template <typename Work>
void ByType(const at::Tensor& tensor, const Work& work) {
  if (tensor.scalar_type() == at::kFloat) {
    work(float{});
  } else {
    work(cpu::Bf16{});
  }
}

template <typename T>
T* Data(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.data_ptr());
}

// Rows of which a thread should get at least so many that waking it pays.
inline int64_t GrainOfRows(int64_t row_elements) { return std::max<int64_t>(1, 16384 / (row_elements + 1)); }

}  // namespace trireme
