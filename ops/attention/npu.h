// Causal attention by torch_npu's fused operator, which brings its own autograd rule.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme::npu {

// query: [rows, heads, length, dim]; key, value: with as many heads or fewer. Differentiable.
at::Tensor CausalAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           double scale);

}  // namespace trireme::npu
