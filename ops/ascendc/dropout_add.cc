#include "ops/ascendc/dropout_add.h"

#include "aclrtlaunch_dropout_add.h"

namespace trireme::ascendc {

void DropoutAdd(const KernelPlace& place, Element element, const void* x, const void* residual, uint64_t size,
                uint32_t seed, float probability, void* y) {
  if (size == 0) return;
  const Tiling tiling = TileFlat(size, 4 * BytesOf(element) + 17, place);
  Launched(ACLRT_LAUNCH_KERNEL(dropout_add)(tiling.blocks, place.stream, Address(x), Address(residual), y,
                                            static_cast<uint32_t>(element), 1, Size32(size, "elements"),
                                            tiling.tile, seed, probability, residual != nullptr ? 1 : 0),
           "dropout_add");
}

bool DropoutKeeps(uint64_t place, uint32_t seed, float probability) {
  uint32_t hash =
      static_cast<uint32_t>(place) * 0x9e3779b1u + seed + static_cast<uint32_t>(place >> 32) * 0x85ebca6bu;
  hash ^= hash >> 16;
  hash *= 0x7feb352du;
  hash ^= hash >> 15;
  hash *= 0x846ca68bu;
  hash ^= hash >> 16;
  return static_cast<float>(hash >> 8) >= probability * 16777216.0f;
}

}  // namespace trireme::ascendc
