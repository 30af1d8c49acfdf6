#include "ops/ascendc/attention_merge.h"

#include "aclrtlaunch_attention_merge.h"

namespace trireme::ascendc {

void AttentionMerge(const KernelPlace& place, Element element, float* sum, float* lse, const void* part,
                    const float* part_lse, uint64_t rows, uint64_t columns) {
  if (rows == 0 || columns == 0) return;
  const Tiling tiling = TileRows(rows, columns, 20, place);
  Launched(ACLRT_LAUNCH_KERNEL(attention_merge)(
               tiling.blocks, place.stream, sum, lse, Address(part), Address(part_lse),
               static_cast<uint32_t>(element), Size32(rows, "rows"), Size32(columns, "columns"), tiling.tile),
           "attention_merge");
}

}  // namespace trireme::ascendc
