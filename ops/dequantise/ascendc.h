// The host side of the kernel dequantise: rows of a packed part, decoded into a matrix. Torch-free.
#pragma once

#include <vector>

#include "core/packing/packed_parts.h"
#include "ops/ascendc/tiling.h"

namespace trireme::ascendc {

// What the kernel looks values up in: those of the codes, then those of the scales' codes.
std::vector<float> DequantiseTables(PackedStorage::Kind kind);

// Sizes beyond the kernel's numbers, and whole rows that lie apart: no matrix of a rank has them. Empty: it decodes the
// part.
const char* WhyNotDequantised(const PackedPart& part, const PackedStorage& storage);

// bytes: of the packed weight; tables: the above, in the device's memory; part_start: where the part's first element
// goes.
void Dequantise(const KernelPlace& place, Element element, const PackedPart& part, const PackedStorage& storage,
                const void* bytes, const void* tables, void* part_start);

}  // namespace trireme::ascendc
