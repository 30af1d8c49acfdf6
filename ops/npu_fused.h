// torch_npu's fused operators, called by name through ATen's dispatcher: needs no header and no symbol of
// torch_npu. Plain calls; the autograd rules are in the operators' own files.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace trireme::npu {

// y, and the scales ([..., 1] fp32) that the backward pass needs. The weight is applied in fp32.
std::pair<at::Tensor, at::Tensor> RmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps);
// Gradients of x and (fp32) of the weight.
std::pair<at::Tensor, at::Tensor> RmsNormBackward(const at::Tensor& y_gradient, const at::Tensor& x,
                                                  const at::Tensor& weight, const at::Tensor& scale);

// silu(first half of the last dim) · second half
at::Tensor SwiGlu(const at::Tensor& gate_up);
at::Tensor SwiGluBackward(const at::Tensor& gradient, const at::Tensor& gate_up);

// Rotates x [1, tokens, heads, dim] by tables of [1, tokens, 1, dim] in the dtype of x.
at::Tensor Rotate(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine);

// Causal; query [rows, heads, length, dim], key and value with as many heads or fewer. Differentiable.
at::Tensor CausalAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           double scale);

// Rows up to ends[0] times factors[0], those up to ends[1] times factors[1], …: [rows, columns] of
// [rows, inputs] and [groups, inputs, columns].
at::Tensor GroupedMatMul(const at::Tensor& x, const at::Tensor& operands, const std::vector<int64_t>& ends);

}  // namespace trireme::npu
