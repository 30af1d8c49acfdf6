#include "ops/swiglu/ascendc.h"

#include "aclrtlaunch_swiglu_backward.h"
#include "aclrtlaunch_swiglu_forward.h"

namespace trireme::ascendc {

namespace {

// Tiles are distributed, not rows: a single long row keeps all cores busy.
Tiling TilingOf(uint64_t rows, uint64_t ffn, uint32_t bytes, const KernelPlace& place) {
  Tiling tiling = TilePieces(rows, ffn, bytes, place);
  const uint64_t tiles = (ffn + tiling.tile - 1) / tiling.tile;
  tiling.blocks = TileRows(rows * tiles, 1, bytes, place).blocks;
  Size32(rows * tiles, "tiles");
  return tiling;
}

}  // namespace

void SwigluForward(const KernelPlace& place, Element element, const void* gate_up, uint64_t rows, uint64_t ffn,
                   void* out) {
  if (rows == 0 || ffn == 0) return;
  const Tiling tiling = TilingOf(rows, ffn, 4 * BytesOf(element) + 12, place);
  Launched(ACLRT_LAUNCH_KERNEL(swiglu_forward)(tiling.blocks, place.stream, Address(gate_up), out,
                                               static_cast<uint32_t>(element), Size32(rows, "rows"),
                                               Size32(ffn, "columns"), tiling.tile),
           "swiglu_forward");
}

void SwigluBackward(const KernelPlace& place, Element element, const void* gate_up, const void* gradient, uint64_t rows,
                    uint64_t ffn, void* result) {
  if (rows == 0 || ffn == 0) return;
  const Tiling tiling = TilingOf(rows, ffn, 4 * BytesOf(element) + 20, place);
  Launched(ACLRT_LAUNCH_KERNEL(swiglu_backward)(tiling.blocks, place.stream, Address(gate_up), Address(gradient),
                                                result, static_cast<uint32_t>(element), Size32(rows, "rows"),
                                                Size32(ffn, "columns"), tiling.tile),
           "swiglu_backward");
}

}  // namespace trireme::ascendc
