#include "ops/moe_permute/ascendc.h"

#include "aclrtlaunch_combine_rows.h"
#include "aclrtlaunch_dot_rows.h"
#include "aclrtlaunch_gather_rows.h"

namespace trireme::ascendc {

void GatherRows(const KernelPlace& place, Element element, const void* from, const int32_t* index, const float* weights,
                const RowShape& s, void* to) {
  if (s.rows == 0 || s.columns == 0) return;
  const Tiling tiling = TilePieces(s.rows, s.columns, 4 * BytesOf(element) + 4, place);
  Launched(ACLRT_LAUNCH_KERNEL(gather_rows)(tiling.blocks, place.stream, Address(from), Address(index),
                                            Address(weights), to, static_cast<uint32_t>(element),
                                            Size32(s.from_rows, "rows"), Size32(s.rows, "rows"),
                                            Size32(s.columns, "columns"), tiling.tile, weights != nullptr ? 1 : 0),
           "gather_rows");
}

void CombineRows(const KernelPlace& place, Element element, const void* from, const int32_t* index,
                 const float* weights, const RowShape& s, void* to) {
  if (s.rows == 0 || s.columns == 0) return;
  const Tiling tiling = TilePieces(s.rows, s.columns, 4 * BytesOf(element) + 8, place);
  Launched(ACLRT_LAUNCH_KERNEL(combine_rows)(
               tiling.blocks, place.stream, Address(from), Address(index), Address(weights), to,
               static_cast<uint32_t>(element), Size32(s.from_rows, "rows"), Size32(s.rows, "rows"),
               Size32(s.terms, "terms"), Size32(s.columns, "columns"), tiling.tile, weights != nullptr ? 1 : 0),
           "combine_rows");
}

void DotRows(const KernelPlace& place, Element element, const void* a, const void* b, const int32_t* index,
             const RowShape& s, float* dots) {
  if (s.rows == 0) return;
  const Tiling tiling = TilePieces(s.rows, s.columns, 2 * BytesOf(element) + 8, place);
  Launched(
      ACLRT_LAUNCH_KERNEL(dot_rows)(tiling.blocks, place.stream, Address(a), Address(b), Address(index), dots,
                                    static_cast<uint32_t>(element), Size32(s.from_rows, "rows"), Size32(s.rows, "rows"),
                                    Size32(s.terms, "terms"), Size32(s.columns, "columns"), tiling.tile),
      "dot_rows");
}

}  // namespace trireme::ascendc
