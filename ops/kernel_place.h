// Connects tensors with the AscendC kernels, which know no torch: where a tensor's kernels run, and its
// element type.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "ops/ascendc/tiling.h"

namespace trireme {

// Why kernels do not support this tensor; empty if they do.
std::string WhyNoKernel(const at::Tensor& tensor);

// For a tensor that kernels support. On the CPU the launch returns when the kernel has finished.
ascendc::KernelPlace PlaceOf(const at::Tensor& tensor);
ascendc::Element ElementOf(const at::Tensor& tensor);

}  // namespace trireme
