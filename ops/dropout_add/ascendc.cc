#include "ops/dropout_add/ascendc.h"

#include "aclrtlaunch_dropout_add.h"

namespace trireme::ascendc {

void DropoutAdd(const KernelPlace& place, Element element, const void* x, const void* residual, const DropoutShape& s,
                void* y) {
  if (s.rows == 0 || s.columns == 0) return;
  const Tiling tiling = TilePieces(s.rows, s.columns, 4 * BytesOf(element) + 21, place);
  Launched(ACLRT_LAUNCH_KERNEL(dropout_add)(tiling.blocks, place.stream, Address(x), Address(residual), Address(s.keys),
                                            y, static_cast<uint32_t>(element), Size32(s.rows, "rows"),
                                            Size32(s.columns, "columns"), tiling.tile, s.first_column, s.rate,
                                            residual != nullptr ? 1 : 0),
           "dropout_add");
}

}  // namespace trireme::ascendc
