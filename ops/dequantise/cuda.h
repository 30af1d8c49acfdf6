// Decoding by the CUDA kernel: its tables on the tensor's device, and a launch for each part.
#pragma once

#include <string>

#include "ops/dequantise/packed_range.h"

namespace trireme {

std::string WhyNoCudaDequantise(const PackedRange& range);
void CudaDequantise(const PackedRange& range);

}  // namespace trireme
