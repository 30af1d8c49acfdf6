// Decoding by the AscendC kernel: its tables on the tensor's device, and a launch for each part.
#pragma once

#include <string>

#include "ops/dequantise/packed_range.h"

namespace trireme {

// Empty: the kernel decodes all parts of the range.
std::string WhyNoDequantiseKernel(const PackedRange& range);
void KernelDequantise(const PackedRange& range);

}  // namespace trireme
