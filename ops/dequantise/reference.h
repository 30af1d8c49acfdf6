// Decoding by ATen alone, on any device: an index for each weight, so its memory is many times that of the weights.
#pragma once

#include "ops/dequantise/packed_range.h"

namespace trireme {

void ReferenceDequantise(const PackedRange& range);

}  // namespace trireme
