// Decodes rows of a packed part into the rank's matrix: value of the code times scale of its block, in fp32, then
// rounded to the matrix's type.
#pragma once

#include <cstdint>

#include "core/packing/packed_parts.h"

namespace trireme {

// Rows [begin, end) of the part, whose first element goes to `part_start`.
void DecodeRows(const PackedPart& part, const PackedStorage& storage, const uint8_t* bytes, int64_t begin, int64_t end,
                float* part_start);
// As bf16.
void DecodeRows(const PackedPart& part, const PackedStorage& storage, const uint8_t* bytes, int64_t begin, int64_t end,
                uint16_t* part_start);

}  // namespace trireme
