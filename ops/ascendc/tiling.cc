#include "ops/ascendc/tiling.h"

#include <algorithm>
#include <limits>

#include "core/base/error.h"
#include "core/device/acl_call.h"

namespace trireme::ascendc {
namespace {

constexpr uint32_t kUnit = 64;  // a repeat of fp32

uint64_t RoundedUp(uint64_t x) { return std::max<uint64_t>((x + kUnit - 1) / kUnit, 1) * kUnit; }

uint64_t LargestTile(uint32_t bytes) {
  const uint64_t columns = (kBufferBytes - kSmallBuffers) / bytes / kUnit * kUnit;
  TRIREME_CHECK(columns > 0);
  return columns;
}

uint32_t Blocks(uint64_t pieces, const KernelPlace& place) {
  return static_cast<uint32_t>(std::clamp<uint64_t>(pieces, 1, place.cores));
}

}  // namespace

Tiling TileRows(uint64_t rows, uint64_t columns, uint32_t bytes, const KernelPlace& place) {
  return {Blocks(rows, place), static_cast<uint32_t>(std::min(LargestTile(bytes), RoundedUp(columns)))};
}

Tiling TilePieces(uint64_t rows, uint64_t columns, uint32_t bytes, const KernelPlace& place) {
  Tiling tiling = TileRows(rows, columns, bytes, place);
  tiling.tile = std::min(tiling.tile, std::max<uint32_t>(place.longest_tile / kUnit * kUnit, kUnit));
  return tiling;
}

Tiling TileFlat(uint64_t count, uint32_t bytes, const KernelPlace& place) {
  constexpr uint64_t kShortest = 2048;
  const uint64_t share = RoundedUp((count + place.cores - 1) / place.cores);
  const uint64_t longest = std::max<uint64_t>(place.longest_tile / kUnit * kUnit, kUnit);
  const uint64_t tile = std::min({LargestTile(bytes), std::clamp<uint64_t>(share, kShortest, 4096), longest});
  return {Blocks((count + tile - 1) / tile, place), static_cast<uint32_t>(tile)};
}

void Launched(uint32_t code, const char* kernel) { AclCall(static_cast<aclError>(code), kernel, "kernel launch"); }

uint32_t Size32(uint64_t size, const char* what) {
  if (size > std::numeric_limits<uint32_t>::max()) {
    throw InputError(what, " of ", size, " exceeds a kernel's limit (4294967295); use smaller micro batches");
  }
  return static_cast<uint32_t>(size);
}

}  // namespace trireme::ascendc
