#include "ops/gated_delta/ascendc.h"

#include <algorithm>

#include "aclrtlaunch_causal_conv_backward.h"
#include "aclrtlaunch_causal_conv_forward.h"
#include "aclrtlaunch_delta_pairs_backward.h"
#include "aclrtlaunch_delta_pairs_forward.h"
#include "core/base/error.h"

namespace trireme::ascendc {
namespace {

uint32_t BlocksOf(const PairShape& s, const KernelPlace& place) {
  TRIREME_CHECK(s.size <= kMostChunkTokens && s.matrices % s.group == 0);
  return TileRows(s.matrices, 1, 4, place).blocks;
}

// Tiles of channels, and as many segments of tokens as give each core something to do.
struct ConvTiling {
  uint32_t tile, segments, blocks;

  ConvTiling(const ConvShape& s, const KernelPlace& place) {
    constexpr uint64_t kLongestTile = 1024, kFewestTokens = 32;
    TRIREME_CHECK(s.taps <= kMostTaps);
    const uint32_t bytes = static_cast<uint32_t>(32 + 16 * s.taps);  // queues and single rows; rows for each tap
    tile = static_cast<uint32_t>(std::min<uint64_t>(TilePieces(1, s.channels, bytes, place).tile, kLongestTile));
    const uint64_t tiles = (s.channels + tile - 1) / tile;
    const uint64_t wanted = (place.cores + tiles - 1) / tiles;
    segments = static_cast<uint32_t>(std::clamp<uint64_t>(s.tokens / kFewestTokens, 1, wanted));
    blocks = TileRows(tiles * segments, 1, 4, place).blocks;
  }
};

}  // namespace

void DeltaPairsForward(const KernelPlace& place, const float* key_products, const float* query_products,
                       const float* decay, const float* beta, const PairShape& s, float* attention, float* inverse) {
  if (s.matrices == 0 || s.size == 0) return;
  Launched(ACLRT_LAUNCH_KERNEL(delta_pairs_forward)(BlocksOf(s, place), place.stream, Address(key_products),
                                                    Address(query_products), Address(decay), Address(beta), attention,
                                                    inverse, Size32(s.matrices, "heads of chunks"),
                                                    Size32(s.size, "tokens"), Size32(s.group, "heads")),
           "delta_pairs_forward");
}

void DeltaPairsBackward(const KernelPlace& place, const float* key_products, const float* query_products,
                        const float* decay, const float* beta, const PairShape& s, float* attention, float* system,
                        float* decay_gradient, float* beta_gradient) {
  if (s.matrices == 0 || s.size == 0) return;
  Launched(ACLRT_LAUNCH_KERNEL(delta_pairs_backward)(
               BlocksOf(s, place), place.stream, Address(key_products), Address(query_products), Address(decay),
               Address(beta), attention, system, decay_gradient, beta_gradient, Size32(s.matrices, "heads of chunks"),
               Size32(s.size, "tokens"), Size32(s.group, "heads")),
           "delta_pairs_backward");
}

uint64_t ConvSegments(const KernelPlace& place, const ConvShape& shape) { return ConvTiling(shape, place).segments; }

void CausalConvForward(const KernelPlace& place, Element element, const void* x, const float* weight,
                       const int32_t* places, const ConvShape& s, void* y) {
  if (s.tokens == 0 || s.channels == 0) return;
  const ConvTiling tiling(s, place);
  Launched(ACLRT_LAUNCH_KERNEL(causal_conv_forward)(tiling.blocks, place.stream, Address(x), Address(weight),
                                                    Address(places), y, static_cast<uint32_t>(element),
                                                    Size32(s.tokens, "tokens"), Size32(s.channels, "channels"),
                                                    Size32(s.taps, "taps"), tiling.tile, tiling.segments),
           "causal_conv_forward");
}

void CausalConvBackward(const KernelPlace& place, Element element, const void* x, const float* weight,
                        const int32_t* places, const void* gradient, const ConvShape& s, void* x_gradient,
                        float* weight_gradient) {
  if (s.tokens == 0 || s.channels == 0) return;
  const ConvTiling tiling(s, place);
  Launched(ACLRT_LAUNCH_KERNEL(causal_conv_backward)(
               tiling.blocks, place.stream, Address(x), Address(weight), Address(places), Address(gradient), x_gradient,
               weight_gradient, static_cast<uint32_t>(element), Size32(s.tokens, "tokens"),
               Size32(s.channels, "channels"), Size32(s.taps, "taps"), tiling.tile, tiling.segments),
           "causal_conv_backward");
}

}  // namespace trireme::ascendc
