// From the fused q|k|v projection to attention's inputs, in one pass each way: RMSNorm of each query and key
// head (if the model has it), rotary embedding, and the layout. Attention itself is
// ops/attention/attention.h.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/tensor/weight.h"
#include "ops/rotary/rotary.h"

namespace trireme {

struct HeadShape {
  int64_t rows = 0;
  int64_t length = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;  // divides heads
  int64_t head_dim = 0;
  double norm_eps = 1e-6;

  int64_t group() const { return heads / kv_heads; }  // query heads that share a key-value head
  int64_t tokens() const { return rows * length; }
  int64_t width() const { return (heads + 2 * kv_heads) * head_dim; }  // elements of a token's q|k|v
};

// Heads that share a key-value head stand side by side, so that one product serves all of them. On a GPU the
// memory goes token by token, [rows, length, kv_heads, group, head_dim], as its attention reads it: the
// tensors are strided.
struct Heads {
  at::Tensor query;  // [rows, kv_heads, length, group, head_dim]
  at::Tensor key;    // [rows, kv_heads, length, head_dim]
  at::Tensor value;  // [rows, kv_heads, length, head_dim]
};

// qkv: [tokens, (heads + 2 kv_heads) · head_dim], a row's tokens in order; the norms: [head_dim] or nullptr,
// which outlive the backward pass; the table: one row per token.
Heads SplitHeads(const at::Tensor& qkv, const HeadShape& shape, const Weight* query_norm, const Weight* key_norm,
                 const RotaryTable& table);

}  // namespace trireme
