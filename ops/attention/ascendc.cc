#include "ops/attention/ascendc.h"

#include "aclrtlaunch_attention_merge.h"

namespace trireme::ascendc {

void AttentionMerge(const KernelPlace& place, Element element, float* sum, float* lse, const void* part,
                    const float* part_lse, const MergeShape& s) {
  if (s.rows == 0 || s.columns == 0) return;
  const Tiling tiling = TileRows(s.rows, s.columns, 20, place);
  const uint64_t run_rows = s.run_rows == 0 ? s.rows : s.run_rows;
  const uint64_t run_stride = s.run_rows == 0 ? s.rows : s.run_stride;
  Launched(ACLRT_LAUNCH_KERNEL(attention_merge)(
               tiling.blocks, place.stream, sum, lse, Address(part), Address(part_lse),
               static_cast<uint32_t>(element), Size32(s.rows, "rows"), Size32(s.columns, "columns"),
               tiling.tile, Size32(run_rows, "rows"), Size32(run_stride, "rows")),
           "attention_merge");
}

}  // namespace trireme::ascendc
