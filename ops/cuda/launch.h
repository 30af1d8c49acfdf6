// Where a kernel of ops/cuda finds its library and its stream, and what becomes of its error. The kernels
// themselves are in kernels.h, without torch.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "ops/cuda/kernels.h"

namespace trireme {

// Empty: contiguous memory of a GPU in fp32 or bf16, and a build that has the kernels.
std::string WhyNoCudaKernel(const at::Tensor& tensor);
// That a row of so many elements can be kept by a block (RMSNorm).
std::string WhyNoCudaRow(const at::Tensor& tensor, int64_t columns);

const cuda::Kernels& CudaKernels();
void* CudaStream();  // torch's current one
inline bool IsBf16(const at::Tensor& tensor) { return tensor.scalar_type() == at::kBFloat16; }
// Throws where a launch failed.
void CheckLaunch(int code, const char* kernel);

}  // namespace trireme
