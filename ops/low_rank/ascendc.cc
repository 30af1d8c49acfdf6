#include "ops/low_rank/ascendc.h"

#include "aclrtlaunch_lora_expand.h"
#include "aclrtlaunch_lora_gradient.h"
#include "aclrtlaunch_lora_shrink.h"

namespace trireme::ascendc {

const char* WhyNotLora(const LoraShape& s) { return s.rank > 256 ? "a rank above 256" : nullptr; }

void LoraShrink(const KernelPlace& place, Element element, const void* x, const void* matrix, const LoraShape& s,
                float* low) {
  if (s.rows == 0 || s.rank == 0) return;
  const Tiling tiling = TileRows(s.rows, s.columns, 2 * BytesOf(element) + 8 + 4, place);  // 4: the sums of 256 ranks
  Launched(ACLRT_LAUNCH_KERNEL(lora_shrink)(tiling.blocks, place.stream, Address(x), Address(matrix), low,
                                            static_cast<uint32_t>(element), Size32(s.rows, "rows"),
                                            Size32(s.columns, "columns"), Size32(s.rank, "rank"), tiling.tile, s.scale),
           "lora_shrink");
}

void LoraExpand(const KernelPlace& place, Element element, const float* low, const void* matrix, const void* base,
                const LoraShape& s, void* y) {
  if (s.rows == 0 || s.columns == 0) return;
  const Tiling tiling = TileRows(s.rows, s.columns, 4 * BytesOf(element) + 8, place);
  Launched(ACLRT_LAUNCH_KERNEL(lora_expand)(tiling.blocks, place.stream, Address(low), Address(matrix), Address(base),
                                            y, static_cast<uint32_t>(element), Size32(s.rows, "rows"),
                                            Size32(s.columns, "columns"), Size32(s.rank, "rank"), tiling.tile, s.scale,
                                            base != nullptr ? 1 : 0),
           "lora_expand");
}

void LoraGradient(const KernelPlace& place, Element element, const float* low, const void* x, const LoraShape& s,
                  float* gradient) {
  if (s.rows == 0 || s.rank == 0) return;
  const uint32_t rank = Size32(s.rank, "rank");
  Tiling tiling = TileRows(s.rows, s.columns, 2 * BytesOf(element) + 4 + 4 * rank, place);
  tiling.blocks = TileRows((s.columns + tiling.tile - 1) / tiling.tile, 1, 64, place).blocks;
  Launched(ACLRT_LAUNCH_KERNEL(lora_gradient)(tiling.blocks, place.stream, Address(low), Address(x), gradient,
                                              static_cast<uint32_t>(element), Size32(s.rows, "rows"),
                                              Size32(s.columns, "columns"), rank, tiling.tile, s.scale),
           "lora_gradient");
}

}  // namespace trireme::ascendc
