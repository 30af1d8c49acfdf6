// Causal attention on CPU memory in blocks of query rows. No autograd here: ops/attention/attention.cc has
// it.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/qkv_norm_rope/qkv_norm_rope.h"

namespace trireme {

struct AttentionResult {
  at::Tensor output;       // [rows · length, heads · head_dim]
  at::Tensor log_sum_exp;  // fp32; of BlockedAttention [rows, kv_heads, length, group]
};

// Contiguous CPU tensors of fp32 or bf16.
AttentionResult BlockedAttention(const Heads& heads);
// output_gradient: shaped like the output. The gradients have the layout of the heads.
Heads BlockedAttentionBackward(const Heads& heads, const AttentionResult& result, const at::Tensor& output_gradient);

}  // namespace trireme
