// The gated delta rule in chunks: all pairs of a chunk's tokens by matmuls (what is between those is delta_pairs.h),
// then one step per chunk for the state that the chunks before left. No autograd here: gated_delta.cc puts the two
// directions together.
//
// Of a chunk with cumulated log decays c, keys K, queries Q (scaled), values V, and the state S before it:
//   D_ij = exp(c_i - c_j) for j <= i,  A = beta_i (K Kᵀ)_ij D_ij for j < i,  T = (1 + A)⁻¹,  P = (Q Kᵀ) D
//   N = T beta (V - exp(c) K S)                    what is written under each key
//   out = exp(c) Q S + P N,   S' = exp(c_last) S + (exp(c_last - c) K)ᵀ N
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/gated_delta/delta_pairs.h"
#include "ops/gated_delta/gated_delta.h"

namespace trireme {

// [chunks, key_heads, value heads per key head or 1, places or key_dim, …], fp32.
struct DeltaPrepared {
  at::Tensor key, query;                    // of length 1; queries before their scale of 1 / sqrt(key_dim)
  at::Tensor key_inverse, query_inverse;    // one over their lengths before
  at::Tensor value, beta, decay;            // decay: cumulated within the chunk
  at::Tensor key_query;                     // K above scaled Q
  at::Tensor key_products, query_products;  // K Kᵀ, Q Kᵀ
  DeltaPairs pairs;                         // P, T

  PairInputs pair_inputs() const { return {key_products, query_products, decay, beta}; }
};
DeltaPrepared PrepareDelta(const DeltaInputs& inputs, const DeltaChunks& chunks);

struct DeltaScan {
  at::Tensor output, written;  // out, N
  // Kept for the backward pass if asked for: S before each chunk, and [K S, Q S].
  at::Tensor before, read;
};
// states: [runs, key_heads, group, key_dim, value_dim] in the chunks' order of runs; become those after them.
DeltaScan ScanDelta(const DeltaPrepared& prepared, const DeltaChunks& chunks, const at::Tensor& states, bool keep);

// What the runs do to any state before them, S' = M S + B: [runs, key_heads, group, key_dim, M key_dim | B value_dim]
// in the chunks' order of runs.
at::Tensor TransitionsOf(const DeltaPrepared& prepared, const DeltaChunks& chunks);

// Gradients of the inputs, each as the input but fp32. output: that of `out`, as `scan.output`. states: those of the
// states after the runs, which become those of the states before them; undefined: zero, and not wanted.
DeltaInputs BackwardDelta(const DeltaPrepared& prepared, const DeltaScan& scan, const DeltaChunks& chunks,
                          const at::Tensor& output, const at::Tensor& states = {});

// The part of that for the states alone.
void BackwardDeltaStates(const DeltaPrepared& prepared, const DeltaChunks& chunks, const at::Tensor& output,
                         const at::Tensor& states);

// [runs, key_heads, group, key_dim, value_dim].
at::Tensor EmptyDeltaStates(const DeltaPrepared& prepared, const DeltaChunks& chunks);

// Tokens into places of chunks, [tokens, heads, …] to [chunks, groups, heads / groups, size, …], and the adjoint: what
// the places of a token have is summed. places: chunks.reads for inputs, chunks.writes for outputs.
at::Tensor IntoChunks(const at::Tensor& x, const DeltaChunks& chunks, const std::vector<int64_t>& places,
                      int64_t groups);
at::Tensor OutOfChunks(const at::Tensor& x, const DeltaChunks& chunks, const std::vector<int64_t>& places);

}  // namespace trireme
