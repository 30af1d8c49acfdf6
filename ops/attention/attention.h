// Causal attention over rows of equal length, with grouped key-value heads. Padding is at the end of a row,
// where no earlier token attends to it, so no mask is needed. On a CPU it works in blocks of query rows: the
// matmuls of a block, and between them the softmax; scores never exist for more than a block.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "ops/qkv_norm_rope/qkv_norm_rope.h"

namespace trireme {

// Returns [rows · length, heads · head_dim], the layout that the output projection reads.
at::Tensor CausalAttention(const Heads& heads);

// The same, but only query, key and value are saved: whichever comes first, `again` (for the weight gradient
// of the projection that reads the output) or the backward pass, recomputes the output and leaves it to the
// other.
struct Attended {
  at::Tensor output;                  // [rows · length, heads · head_dim]
  std::function<at::Tensor()> again;  // the same values; no gradient flows through them
};
Attended CausalAttentionAgain(const Heads& heads);

// query: [rows, length, heads, head_dim]; key, value: [rows, length, kv_heads, head_dim]. The result has the
// query's shape. Costs one more copy of each than the above.
at::Tensor CausalAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value);

}  // namespace trireme
