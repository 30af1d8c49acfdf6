#include "core/packing/packed_parts.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/rounding.h"
#include "core/packing/scales.h"

namespace trireme {
namespace {

constexpr int64_t kFloatBytes = 4;
constexpr int64_t kAlignment = 16;  // of codes and scales of each part

int64_t MostBlocksOfRun(const PackedPart& part) {
  int64_t most = 0;
  for (int64_t run = 0; run < part.runs(); ++run) {
    const int64_t begin = part.RunStart(run);
    most = std::max(most, (begin + part.run_size() - 1) / part.block - begin / part.block + 1);
  }
  return most;
}

// Assigns places after `end` and returns the new end.
int64_t Place(const PackedStorage& storage, int64_t end, PackedPart& part) {
  part.block = storage.BlockOf(part.matrix_columns);
  part.code_bits = storage.code_bits();
  part.codes = RoundUp(end, kAlignment);
  part.scales = RoundUp(part.codes + part.runs() * part.run_code_bytes(), kAlignment);
  part.run_blocks = MostBlocksOfRun(part);
  const int64_t scales = part.runs() * part.run_blocks;
  part.nested = RoundUp(part.scales + scales * (storage.nested ? 1 : kFloatBytes), kAlignment);
  const int64_t blocks = DivideUp(part.matrix_elements(), part.block);
  return part.nested + (storage.nested ? kFloatBytes * (DivideUp(blocks, kScalesPerBlock) + 1) : 0);
}

// Codes in the places of their weights, then a scale for each row of the rank's matrix. Returns the end.
int64_t PlaceAsMatrix(std::vector<PackedPart>& parts) {
  int64_t elements = 0, rows = 0;
  for (PackedPart& part : parts) {
    TRIREME_CHECK(part.local_stride == part.columns) << part.name << " is not a matrix of whole rows on this rank";
    part.block = part.matrix_columns;
    part.code_bits = 8;
    part.run_blocks = part.has_whole_rows() ? part.rows : 1;
    part.codes = part.local_offset;
    elements = std::max(elements, part.local_offset + part.rows * part.columns);
    rows = std::max(rows, part.local_offset / part.columns + part.rows);
  }
  const int64_t scales = RoundUp(elements, kAlignment);
  for (PackedPart& part : parts) part.scales = scales + kFloatBytes * (part.local_offset / part.columns);
  return scales + kFloatBytes * rows;
}

PackedPart PartOf(const SliceCopy& copy) {
  const HfTensor& matrix = *copy.source;
  const size_t dims = copy.extent.size();
  TRIREME_CHECK(dims >= 2 && !matrix.transposed) << matrix.name << " is no matrix to pack";
  const int64_t rows = matrix.shape.at(matrix.shape.size() - 2), columns = matrix.shape.back();
  return {.name = matrix.name,
          .matrix_rows = rows,
          .matrix_columns = columns,
          .first_row = copy.file_offset / columns,
          .first_column = copy.file_offset % columns,
          .rows = copy.extent[dims - 2],
          .columns = copy.extent[dims - 1],
          .local_offset = copy.local_offset,
          .local_stride = copy.local_strides[dims - 2]};
}

}  // namespace

PackedParts PlaceParts(const PackedStorage& storage, std::vector<PackedPart> parts) {
  PackedParts all{.storage = storage, .parts = std::move(parts), .bytes = 0};
  if (storage.kind == PackedStorage::Kind::kFp8) {
    all.bytes = PlaceAsMatrix(all.parts);
  } else {
    for (PackedPart& part : all.parts) all.bytes = Place(storage, all.bytes, part);
  }
  return all;
}

PackedPart WholeMatrix(std::string name, int64_t rows, int64_t columns, const PackedStorage& storage) {
  return PlaceParts(storage, {{.name = std::move(name),
                               .matrix_rows = rows,
                               .matrix_columns = columns,
                               .rows = rows,
                               .columns = columns,
                               .local_stride = columns}})
      .parts.front();
}

PackedParts PackedPartsOf(const Parameter& parameter, const Placement& placement, int rank) {
  TRIREME_CHECK(parameter.packed.has_value()) << parameter.declaration.name << " is not packed";
  std::vector<PackedPart> parts;
  for (const SliceCopy& copy : SliceCopies(parameter, placement, rank)) parts.push_back(PartOf(copy));
  return PlaceParts(*parameter.packed, std::move(parts));
}

}  // namespace trireme
