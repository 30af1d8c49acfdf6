// The host side of the kernels of the gated delta rule: pairs of a chunk's tokens, and the convolution before.
#pragma once

#include "ops/ascendc/tiling.h"

namespace trireme::ascendc {

constexpr uint64_t kMostChunkTokens = 64;

struct PairShape {
  uint64_t matrices;  // value heads of all chunks
  uint64_t size;      // tokens of a chunk, at most kMostChunkTokens
  uint64_t group;     // adjacent value heads that share a key head
};

// Products: [matrices / group, size, size]; decay (cumulated), beta: [matrices, size]; attention (P), inverse (T):
// [matrices, size, size], as chunk_scan.h defines them.
void DeltaPairsForward(const KernelPlace& place, const float* key_products, const float* query_products,
                       const float* decay, const float* beta, const PairShape& shape, float* attention, float* inverse);

// attention, system: the gradients of P, and G Nᵀ with G the gradient of what the system is applied to; they become
// those of the products of queries and of keys. Also the pairs' part of the other gradients, [matrices, size].
void DeltaPairsBackward(const KernelPlace& place, const float* key_products, const float* query_products,
                        const float* decay, const float* beta, const PairShape& shape, float* attention, float* system,
                        float* decay_gradient, float* beta_gradient);

struct ConvShape {
  uint64_t tokens, channels, taps;
};
constexpr uint64_t kMostTaps = 8;

// x, y: [tokens, channels]; weight: [taps, channels] fp32; places: [tokens] tokens of the same document before each.
void CausalConvForward(const KernelPlace& place, Element element, const void* x, const float* weight,
                       const int32_t* places, const ConvShape& shape, void* y);

// Into how many parts the weights' gradient is summed.
uint64_t ConvSegments(const KernelPlace& place, const ConvShape& shape);
// weight_gradient: [segments, taps, channels] fp32
void CausalConvBackward(const KernelPlace& place, Element element, const void* x, const float* weight,
                        const int32_t* places, const void* gradient, const ConvShape& shape, void* x_gradient,
                        float* weight_gradient);

}  // namespace trireme::ascendc
