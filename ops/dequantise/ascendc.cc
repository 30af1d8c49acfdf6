#include "ops/dequantise/ascendc.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "aclrtlaunch_dequantise.h"
#include "core/base/rounding.h"
#include "core/packing/codes.h"
#include "core/packing/scales.h"

namespace trireme::ascendc {
namespace {

// Of a core's buffer for each weight: codes twice, and once as half, offsets, fractions, scales, results.
constexpr uint32_t BytesPerWeight(Element element) { return 16 + 2 * BytesOf(element); }

bool IsOneRun(const PackedPart& part) { return part.has_whole_rows() && part.local_stride == part.columns; }

}  // namespace

// The kernel reads codes as signed numbers of four bits: those from 8 on are negative, and come first.
std::vector<float> DequantiseTables(PackedStorage::Kind kind) {
  const CodeTable& values = ValuesOfCodes(kind);
  std::vector<float> tables(values.begin() + 8, values.end());
  tables.insert(tables.end(), values.begin(), values.begin() + 8);
  const std::vector<float> map = DynamicMap(/*negative=*/true);
  tables.insert(tables.end(), map.begin(), map.end());
  return tables;
}

const char* WhyNotDequantised(const PackedPart& part, const PackedStorage& storage) {
  if (!IsPackedBlock(storage.block)) return "its blocks are not of 32, 64, … or 4096 weights";
  const int64_t largest =
      std::max({part.matrix_elements(), part.rows * part.local_stride, part.runs() * part.run_blocks});
  if (largest > std::numeric_limits<int32_t>::max()) return "a matrix has more than 2147483647 weights";
  return part.has_whole_rows() && !IsOneRun(part) ? "whole rows of a matrix lie apart" : "";
}

void Dequantise(const KernelPlace& place, Element element, const PackedPart& part, const PackedStorage& storage,
                const void* bytes, const void* tables, void* part_start) {
  const auto number = [](int64_t value) { return Size32(static_cast<uint64_t>(value), "packed weights"); };
  const int64_t rows = part.runs(), columns = part.run_size();
  if (rows == 0 || columns == 0) return;
  const uint32_t room = BytesPerWeight(element);
  Tiling tiling = rows == 1 ? TileFlat(static_cast<uint64_t>(columns), room, place)
                            : TilePieces(static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), room, place);
  const auto* from = static_cast<const uint8_t*>(bytes);
  const int64_t nested = DivideUp(DivideUp(part.matrix_elements(), storage.block), kScalesPerBlock);
  Launched(ACLRT_LAUNCH_KERNEL(dequantise)(
               tiling.blocks, place.stream, Address(from + part.codes), Address(from + part.scales),
               Address(from + part.nested), Address(tables), part_start, static_cast<uint32_t>(element),
               storage.nested ? number(nested) : 0, number(rows), number(columns), number(part.local_stride),
               number(part.RunStart(0)), number(part.matrix_columns), number(part.run_blocks),
               static_cast<uint32_t>(std::countr_zero(static_cast<uint64_t>(storage.block))), tiling.tile),
           "dequantise");
}

}  // namespace trireme::ascendc
