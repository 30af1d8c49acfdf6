// Connects tensors with the loops of its cpu.cc and with the kernels, which know no torch: element types,
// pointers, and how rows are split over threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "ops/cpu/simd.h"

namespace trireme {

// Calls work(float{}) or work(cpu::Bf16{}), by the tensor's dtype.
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

// The fewest rows for which waking a thread pays off.
inline int64_t GrainOfRows(int64_t row_elements) { return std::max<int64_t>(1, 16384 / (row_elements + 1)); }

}  // namespace trireme
