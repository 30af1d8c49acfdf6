// torch_npu's fused attention operators on tensors in their own layouts: sequences of different length side
// by side (TND), forward and backward, and new tokens over a cache. What becomes a sequence is not decided
// here (varlen_calls.h), heads are laid out in npu_attention.cc. No autograd: the operators' backward is
// called as such, with statistics that may cover more keys than the call.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "ops/attention/varlen_calls.h"

namespace trireme::npu {

struct TokenHeads {
  at::Tensor query;  // [tokens, heads, head_dim]
  at::Tensor key;    // [tokens, kv_heads, head_dim]
  at::Tensor value;  // [tokens, kv_heads, value_dim]; value_dim at most head_dim
};

struct VarLenResult {
  at::Tensor output;  // [tokens, heads, value_dim]
  // [tokens · heads] fp32. The operator's order: sequence by sequence, and within one head by head.
  at::Tensor log_sum_exp;
};

// The tensors hold the call's tokens only.
VarLenResult VarLenAttention(const TokenHeads& heads, const VarLenCall& call, double scale);
TokenHeads VarLenAttentionBackward(const TokenHeads& heads, const VarLenCall& call, double scale,
                                   const VarLenResult& result, const at::Tensor& output_gradient);

// Attention over a cache, in generation: each row's new tokens come last among its keys.
struct InferRows {
  std::vector<int64_t> queries;  // [rows] new tokens; the rest of the row is padding
  std::vector<int64_t> keys;     // [rows] tokens in the cache, new ones too
};
// query: [rows, heads, length, head_dim]; key, value: [rows, kv_heads, capacity, head_dim]; all contiguous.
at::Tensor FusedInferAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, double scale,
                               const InferRows& rows);

// The same for one new token per row, over blocks: key, value: [blocks, kv_heads, block_size, head_dim]; table:
// [rows, columns] int32, each row's blocks in order.
at::Tensor FusedInferOverBlocks(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                const at::Tensor& table, double scale, const InferRows& rows);

}  // namespace trireme::npu
