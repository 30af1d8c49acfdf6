// Attention piece by piece: queries against some of the keys they see, merged by log-sum-exp with what they
// have seen before. For packed documents, for sequences that lie on several ranks, and for heads whose values
// are of another size than their keys. No autograd here, no communication: parallel/context has both. The
// merge needs no gradient of its own: with the final log-sum-exp each piece is differentiated for itself.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ops/attention_tile.h"
#include "ops/heads.h"

namespace trireme {

struct SeenAttention {
  at::Tensor output;       // [rows, kv_heads, length, group, value_dim] fp32
  at::Tensor log_sum_exp;  // [rows, kv_heads, length, group] fp32; minus infinity where nothing was seen
};

SeenAttention NothingSeen(const at::Tensor& query, int64_t value_dim);

// heads: as ops/heads.h lays them out; keys may have another length than queries.
void AttendTiles(const Heads& heads, double scale, const RowTiles& tiles, SeenAttention& seen);
// The same by the loops of ops/cpu, whatever would be chosen: contiguous CPU tensors of fp32 or bf16.
void AttendTilesByLoops(const Heads& heads, double scale, const RowTiles& tiles, SeenAttention& seen);

// Queries that have seen some keys have also seen those of `part`: the mean of both, by their log-sum-exps.
// Either is laid out as above; of `seen` the first dim may be strided. Lines of one head lie together.
void MergeSeen(const SeenAttention& seen, const SeenAttention& part);

// What the backward pass knows of the queries: the final log-sum-exp, the gradient of the output (laid out as
// SeenAttention::output, in the heads' type) and its product with the output.
struct AttendedQueries {
  at::Tensor log_sum_exp;
  at::Tensor output_gradient;
  at::Tensor dot;  // [rows, kv_heads, length, group] fp32
};

// Adds to sums, fp32 and laid out as the heads.
void AttendTilesBackward(const Heads& heads, double scale, const RowTiles& tiles,
                         const AttendedQueries& queries, Heads& sums);

}  // namespace trireme
