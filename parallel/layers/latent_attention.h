// Multi-head latent attention up to the output projection: queries, keys and values from latent vectors, a
// rope part of each key that all heads share, attention over this rank's heads.
#pragma once

#include <string>
#include <vector>

#include "ops/linear/linear.h"
#include "parallel/layers/projection.h"

namespace trireme {

class LatentAttention {
 public:
  LatentAttention(const AttentionSpec& spec, const Projection::Place& place, const LayerParallel& parallel);

  // x: all tokens, inside a tensor-parallel block. Returns [tokens, heads · value_dim of this rank].
  at::Tensor Forward(const LinearInput& x, PassContext& pass) const;

 private:
  at::Tensor Queries(const LinearInput& x, PassContext& pass) const;  // [tokens, heads, nope | rope]
  // A matrix whose rows are kv_b's: [heads, qk_nope_head_dim + value_dim, columns].
  at::Tensor OfHeads(const at::Tensor& matrix) const;
  // kv_b of this rank's heads, with its LoRA adapters: [heads, qk_nope_head_dim + value_dim, kv_rank].
  at::Tensor Expansion(PassContext& pass) const;
  // What the adapters of kv_b add by row: to queries that are projected back, [tokens, heads, kv_rank], and to the
  // output, [tokens, heads, value_dim], of the mean latents.
  void AddRowAdaptersToQueries(const at::Tensor& own, const at::Tensor& projected, PassContext& pass) const;
  void AddRowAdaptersToValues(const at::Tensor& mixed, const at::Tensor& values, PassContext& pass) const;
  // Attention over cached latents. own, turned: parts of the queries, [tokens, heads, …]; latent: [tokens, kv_rank
  // + qk_rope_head_dim].
  at::Tensor OverLatents(const at::Tensor& own, const at::Tensor& turned, const at::Tensor& latent,
                         PassContext& pass) const;
  // x: [tokens, heads, qk_rope_head_dim]
  at::Tensor Turned(const at::Tensor& x, PassContext& pass) const;

  const std::string layer_;
  const AttentionSpec spec_;
  const LatentSpec latent_;
  const LayerParallel& parallel_;
  const int64_t heads_;  // of this rank
  const Rotation rotation_;
  const Projection query_;    // [heads · head_dim, hidden], or query_a and query_b:
  const Projection query_a_;  // [query_rank, hidden]
  const Weight* query_a_norm_;
  const Projection query_b_;  // [heads · head_dim, query_rank]
  const Projection kv_a_;     // [kv_rank + qk_rope_head_dim, hidden]
  const Weight& kv_a_norm_;   // [kv_rank]
  const Projection kv_b_;     // [heads · (qk_nope_head_dim + value_dim), kv_rank]
};

}  // namespace trireme
