#include "ops/attention/packed_attention.h"

#include <ATen/ops/zeros_like.h>

#include "ops/attention/flash_attention.h"
#include "ops/attention/npu_attention.h"
#include "ops/attention/windowed_tiles.h"
#include "ops/choose.h"

namespace trireme {
namespace {

PartialAttention PackedByTiles(const Heads& heads, double scale, const RowTiles& tiles) {
  PartialAttention partial = EmptyPartial(heads.query, heads.value.size(3));
  AttendTiles(heads, scale, tiles, partial);
  return partial;
}

Heads PackedByTilesBackward(const Heads& heads, double scale, const RowTiles& tiles, const AttendedQueries& queries) {
  Heads sums{at::zeros_like(heads.query, at::kFloat), at::zeros_like(heads.key, at::kFloat),
             at::zeros_like(heads.value, at::kFloat)};
  AttendTilesBackward(heads, scale, tiles, queries.HeadByHead(), sums);
  return sums;
}

PartialAttention FlashOrTiles(const Heads& heads, double scale, const RowTiles& tiles) {
  if (AreDocuments(tiles, heads.query.size(2))) return FlashPacked(heads, scale, tiles);
  return PackedByTiles(heads, scale, tiles);
}

Heads FlashOrTilesBackward(const Heads& heads, double scale, const RowTiles& tiles, const AttendedQueries& queries) {
  if (AreDocuments(tiles, heads.query.size(2))) return FlashPackedBackward(heads, scale, tiles, queries);
  return PackedByTilesBackward(heads, scale, tiles, queries);
}

std::string WhyNoPackedLoops(const Heads& heads) { return WhyNoLoops(heads.query); }

// Whole sequences, under the name and the switch of the operator for tiles.
const ImplementationList<Heads, decltype(&PackedByTiles), decltype(&PackedByTilesBackward)> kPacked{
    "attention_tiles",
    {{"cpu", WhyNoPackedLoops, PackedByTiles, PackedByTilesBackward},
     {"flash", WhyNotFlash, FlashOrTiles, FlashOrTilesBackward},
     {"torch_npu", WhyNotVarLen, NpuPacked, NpuPackedBackward},
     {"aten", nullptr, PackedByTiles, PackedByTilesBackward}}};

// Those that tell the log-sum-exp, under the same name and switch.
const ImplementationList<Heads, decltype(&PackedByTiles), decltype(&PackedByTilesBackward)> kPackedWithSums{
    "attention_tiles",
    {{"cpu", WhyNoPackedLoops, PackedByTiles, PackedByTilesBackward},
     {"torch_npu", WhyNotVarLen, NpuPackedWithSums, NpuPackedWithSumsBackward},
     {"aten", nullptr, PackedByTiles, PackedByTilesBackward}}};

}  // namespace

PartialAttention AttendPacked(const Heads& heads, double scale, const RowTiles& tiles) {
  if (AreCapped(tiles)) return PackedByTiles(heads, scale, tiles);  // fused operators know no soft cap
  return kPacked.Choose(heads).forward(heads, scale, tiles);
}

Heads AttendPackedBackward(const Heads& heads, double scale, const RowTiles& tiles, const AttendedQueries& queries) {
  if (AreCapped(tiles)) return PackedByTilesBackward(heads, scale, tiles, queries);
  return kPacked.Choose(heads).backward(heads, scale, tiles, queries);
}

PartialAttention AttendPackedWithSums(const Heads& heads, double scale, const RowTiles& tiles) {
  if (AreCapped(tiles)) return PackedByTiles(heads, scale, tiles);
  return kPackedWithSums.Choose(heads).forward(heads, scale, tiles);
}

Heads AttendPackedWithSumsBackward(const Heads& heads, double scale, const RowTiles& tiles,
                                   const AttendedQueries& queries) {
  if (AreCapped(tiles)) return PackedByTilesBackward(heads, scale, tiles, queries);
  return kPackedWithSums.Choose(heads).backward(heads, scale, tiles, queries);
}

std::vector<CaseReport> ReportPacked(const at::Tensor& like) {
  std::vector<CaseReport> report = ReportHeadSizes(kPacked, like);
  for (CaseReport& line : report) line.shape = "packed " + line.shape;
  return report;
}

}  // namespace trireme
