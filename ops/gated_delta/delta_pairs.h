// Pairs of a chunk's tokens in the gated delta rule: decays between them, the triangular system, and their gradients,
// with a list of implementations. The matmuls that make and use these matrices are chunk_scan.cc's, as are the names.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme {

// All fp32 and contiguous.
struct PairInputs {
  at::Tensor key_products, query_products;  // K Kᵀ, Q Kᵀ: [chunks, key_heads, 1, size, size]
  at::Tensor decay, beta;                   // [chunks, key_heads, group, size]; decay: cumulated
};

// [chunks, key_heads, group, size, size]
struct DeltaPairs {
  at::Tensor attention, inverse;  // P, T
  at::Tensor decays;              // D, if the implementation wants to have it again
};
DeltaPairs PairsOf(const PairInputs& inputs);

struct PairGradients {
  at::Tensor query_products, key_products;  // [chunks, key_heads, group, size, size]
  at::Tensor decay, beta;                   // [chunks, key_heads, group, size]
};
// attention: the gradient of P. system: G Nᵀ, G being the gradient of what T is applied to. Both are overwritten.
PairGradients PairsBackward(const PairInputs& inputs, const DeltaPairs& pairs, const at::Tensor& attention,
                            const at::Tensor& system);

}  // namespace trireme
