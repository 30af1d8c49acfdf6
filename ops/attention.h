// Causal attention over rows of equal length, with grouped key-value heads. Padding stands at the end of a
// row, where no earlier token sees it, so no mask is needed.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme {

// query: [rows, length, heads, head_dim]; key, value: [rows, length, kv_heads, head_dim]. The result is
// shaped as the query.
at::Tensor CausalAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value);

}  // namespace trireme
