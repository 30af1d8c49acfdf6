#include "ops/rms_norm/ascendc.h"

#include "aclrtlaunch_rms_norm_backward.h"
#include "aclrtlaunch_rms_norm_forward.h"

namespace trireme::ascendc {

void RmsNormForward(const KernelPlace& place, Element element, const RmsNormForwardArgs& a) {
  if (a.rows == 0 || a.columns == 0) return;
  const uint32_t bytes = 4 * BytesOf(element) + 12;  // two in, two out, three in fp32
  const Tiling tiling = TileRows(a.rows, a.columns, bytes, place);
  Launched(ACLRT_LAUNCH_KERNEL(rms_norm_forward)(tiling.blocks, place.stream, Address(a.x), Address(a.branch),
                                                 Address(a.weight), a.sum, a.y, a.scale, static_cast<uint32_t>(element),
                                                 Size32(a.rows, "rows"), Size32(a.columns, "columns"), tiling.tile,
                                                 a.eps, a.branch != nullptr ? 1 : 0),
           "rms_norm_forward");
}

uint32_t RmsNormBackwardBlocks(const KernelPlace& place, uint64_t rows) { return TileRows(rows, 1, 32, place).blocks; }

void RmsNormBackward(const KernelPlace& place, Element element, const RmsNormBackwardArgs& a) {
  if (a.rows == 0 || a.columns == 0) return;
  const Tiling tiling = TileRows(a.rows, a.columns, 32, place);
  Launched(ACLRT_LAUNCH_KERNEL(rms_norm_backward)(
               tiling.blocks, place.stream, Address(a.x), Address(a.weight), Address(a.scale), Address(a.y_gradient),
               Address(a.carried), a.x_gradient, a.weight_sums, static_cast<uint32_t>(element), Size32(a.rows, "rows"),
               Size32(a.columns, "columns"), tiling.tile, a.carried != nullptr ? 1 : 0),
           "rms_norm_backward");
}

}  // namespace trireme::ascendc
