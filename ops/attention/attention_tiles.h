// Attention in tiles: queries against some of their keys, merged by log-sum-exp with the partial result so
// far. For sequences split over several ranks, and for packed documents where no fused operator takes them
// (packed_attention.h); values may differ in size from keys. No autograd here, no communication:
// parallel/context has both. The merge needs no gradient of its own: given the final log-sum-exp, each tile
// is differentiated separately.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

#include "ops/attention/attention_tile.h"
#include "ops/qkv_norm_rope/qkv_norm_rope.h"

namespace trireme {

struct PartialAttention {
  at::Tensor output;       // [rows, kv_heads, length, group, value_dim] fp32
  at::Tensor log_sum_exp;  // [rows, kv_heads, length, group] fp32; minus infinity before the first key
};

PartialAttention EmptyPartial(const at::Tensor& query, int64_t value_dim);

// heads: in the layout of ops/qkv_norm_rope/qkv_norm_rope.h; keys may have another length than queries.
void AttendTiles(const Heads& heads, double scale, const RowTiles& tiles, PartialAttention& partial);
// The same by the loops of its cpu.cc, regardless of the list: contiguous CPU tensors of fp32 or bf16.
void AttendTilesByLoops(const Heads& heads, double scale, const RowTiles& tiles, PartialAttention& partial);

// Merges `part` into `partial`: the mean of both, weighted by their log-sum-exps. Both are laid out as above;
// the first dim of `partial` may be strided. Rows of one head are contiguous.
void MergePartial(const PartialAttention& partial, const PartialAttention& part);

// The queries' state in the backward pass: the final log-sum-exp, the gradient of the output, and the output,
// both laid out as PartialAttention::output but in the heads' dtype, their memory in any order.
struct AttendedQueries {
  AttendedQueries(at::Tensor log_sum_exp, at::Tensor output_gradient, at::Tensor output)
      : log_sum_exp(std::move(log_sum_exp)), output_gradient(std::move(output_gradient)), output(std::move(output)) {}

  at::Tensor log_sum_exp;
  at::Tensor output_gradient;
  at::Tensor output;

  // The dot product of the two: [rows, kv_heads, length, group] fp32. Computed once, by those who need it.
  const at::Tensor& dot() const;
  // The same with a gradient that is contiguous, as loops over tiles read it.
  AttendedQueries HeadByHead() const;

 private:
  mutable at::Tensor dot_;
};

// Adds to sums, which are fp32 and have the layout of the heads. The gradient of the output is contiguous.
void AttendTilesBackward(const Heads& heads, double scale, const RowTiles& tiles, const AttendedQueries& queries,
                         Heads& sums);

}  // namespace trireme
