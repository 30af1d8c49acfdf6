// Attention by torch_npu's fused operators, in the terms of this folder's operators: heads and tiles. Lays
// heads out as the operators read them (npu.h), call by call (varlen_calls.h). No autograd, no lists: the
// operators' own files have both.
#pragma once

#include <string>
#include <vector>

#include "ops/attention/attention_blocks.h"
#include "ops/attention/attention_tiles.h"
#include "ops/attention/cached_attention.h"
#include "ops/attention/varlen_calls.h"
#include "ops/choose.h"

namespace trireme {

// Why the operator for sequences of different length declines; heads without a shape: those of any shape.
std::string WhyNotVarLen(const Heads& heads);
// The same of the operator for generation.
std::string WhyNotFusedInfer(const Heads& heads);

// Heads without tokens, for reports: keys and values of these sizes.
Heads EmptyHeads(const at::Tensor& like, int64_t dim, int64_t value_dim);

// What a list of attention over heads reports: heads as usual, those of latent attention (keys, values), too
// large ones.
template <typename List>
std::vector<CaseReport> ReportHeadSizes(const List& list, const at::Tensor& like) {
  return {list.Report("[any, any]", {like, like, like}), list.Report("[heads 192, 128]", EmptyHeads(like, 192, 128)),
          list.Report("[heads of 1024]", EmptyHeads(like, 1024, 1024))};
}

// Rows of one document each; as BlockedAttention. The log-sum-exp is in the operator's order.
std::string WhyNotNpuAttention(const at::Tensor& query);
AttentionResult NpuAttention(const Heads& heads);
Heads NpuAttentionBackward(const Heads& heads, const AttentionResult& result, const at::Tensor& output_gradient);

// As AttendPacked and AttendPackedBackward (packed_attention.h). The log-sum-exp is in the operator's order.
PartialAttention NpuPacked(const Heads& heads, double scale, const RowTiles& tiles);
Heads NpuPackedBackward(const Heads& heads, double scale, const RowTiles& tiles, const AttendedQueries& queries);
// With smaller limits, for tests of rows that are longer than they allow.
PartialAttention NpuPacked(const Heads& heads, double scale, const RowTiles& tiles, const VarLenLimits& limits);
Heads NpuPackedBackward(const Heads& heads, double scale, const RowTiles& tiles, const AttendedQueries& queries,
                        const VarLenLimits& limits);

// The same with the log-sum-exp laid out as in attention_tiles.h, as AttendPackedWithSums.
PartialAttention NpuPackedWithSums(const Heads& heads, double scale, const RowTiles& tiles);
Heads NpuPackedWithSumsBackward(const Heads& heads, double scale, const RowTiles& tiles,
                                const AttendedQueries& queries);

// As AttendTiles and AttendTilesBackward.
void NpuTiles(const Heads& heads, double scale, const RowTiles& tiles, PartialAttention& partial);
void NpuTilesBackward(const Heads& heads, double scale, const RowTiles& tiles, const AttendedQueries& queries,
                      Heads& sums);

// As the implementations of cached_attention: the operator for generation, and the one for training.
at::Tensor NpuCached(const Heads& heads, double scale, const CachedRows& rows);
at::Tensor NpuCachedVarLen(const Heads& heads, double scale, const CachedRows& rows);

}  // namespace trireme
