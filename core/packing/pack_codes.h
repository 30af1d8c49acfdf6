// Packs a rank's part of a matrix: codes row by row, as the matrix is read, and scales.
#pragma once

#include <cstdint>
#include <span>

#include "core/packing/packed_parts.h"
#include "core/packing/scales.h"

namespace trireme {

// Consecutive rows of the file's matrix.
struct MatrixRows {
  int64_t first = 0;
  std::span<const float> values;  // whole rows
};

// Writes the codes of those rows that the part holds. scales: of the matrix's blocks, from its first one. int8: the
// caller has rounded the values to fp16, as bitsandbytes does first. fp8: scales are those of Fp8RowScale.
void PackRows(const PackedPart& part, const PackedStorage& storage, const MatrixRows& rows,
              std::span<const float> scales, uint8_t* bytes);

// The same of codes that a file has: of the whole matrix.
void CopyCodes(const PackedPart& part, std::span<const uint8_t> codes, uint8_t* bytes);

// The scales of the blocks that the part touches, of the matrix's.
void StoreScales(const PackedPart& part, const PackedStorage& storage, std::span<const float> scales, uint8_t* bytes);
void StoreScales(const PackedPart& part, const PackedStorage& storage, const NestedScales& scales, uint8_t* bytes);

}  // namespace trireme
