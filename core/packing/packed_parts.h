// PackedParts: where the packed weights of a rank's matrix are. A part is what the rank holds of one matrix of the
// files (q, k or v of a fused matrix, one expert's gate); its blocks are those of the whole file matrix, however it is
// split, so that any layout decodes the same weights. Scales of a block that a split cuts are on both ranks. No memory,
// no numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/packed_storage.h"
#include "core/plan/parameter.h"

namespace trireme {

struct PackedPart {
  std::string name;         // of the matrix in the files
  int64_t matrix_rows = 0;  // of the file's matrix
  int64_t matrix_columns = 0;
  int64_t first_row = 0;  // of the matrix, that the rank holds
  int64_t first_column = 0;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t local_offset = 0;  // elements of the rank's tensor, row-major
  int64_t local_stride = 0;

  int64_t block = 0;  // weights of the matrix that share a scale; int8, fp8: a row, however it is split
  int64_t code_bits = 4;
  int64_t run_blocks = 0;  // the most blocks that a run touches; each run has room for so many scales

  // Bytes, from the first of the parameter's.
  int64_t codes = 0;   // of 4 bits: two to a byte, the first in the upper half; of 8: signed, or e4m3
  int64_t scales = 0;  // of the blocks that each run touches: fp32, or codes of 8 bits
  int64_t nested = 0;  // nested: the scales of the matrix's scales, all of them, fp32, and after them their offset

  // Consecutive elements of the file's matrix: all of the part where its rows are whole, otherwise a row of it.
  bool has_whole_rows() const { return columns == matrix_columns; }
  int64_t runs() const { return has_whole_rows() ? 1 : rows; }
  int64_t run_size() const { return has_whole_rows() ? rows * columns : columns; }
  int64_t RunStart(int64_t run) const { return (first_row + run) * matrix_columns + first_column; }
  int64_t run_code_bytes() const { return (run_size() * code_bits + 7) / 8; }
  int64_t matrix_elements() const { return matrix_rows * matrix_columns; }
};

struct PackedParts {
  PackedStorage storage;
  std::vector<PackedPart> parts;
  int64_t bytes = 0;
};

// Gives the parts their bytes, one after another; of fp8 all codes as the rank's matrix has them, then all scales, so
// that a product reads both where they are.
PackedParts PlaceParts(const PackedStorage& storage, std::vector<PackedPart> parts);
// A file's matrix as the only part of a rank that holds it all, its codes first.
PackedPart WholeMatrix(std::string name, int64_t rows, int64_t columns, const PackedStorage& storage);

// Of a parameter that is declared as packed.
PackedParts PackedPartsOf(const Parameter& parameter, const Placement& placement, int rank);

}  // namespace trireme
