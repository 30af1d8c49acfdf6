// The operators, one line each, in the order in which `check --ops` lists them. Each is described by the
// function of its name in namespace operators (operator.h), next to its list of implementations. No torch
// here.
#pragma once

#define TRIREME_OPERATORS(OPERATOR) \
  OPERATOR(rms_norm)                \
  OPERATOR(swiglu)                  \
  OPERATOR(weighted_swiglu)         \
  OPERATOR(qkv_norm_rope)           \
  OPERATOR(rotary)                  \
  OPERATOR(attention)               \
  OPERATOR(attention_tiles)         \
  OPERATOR(attention_merge)         \
  OPERATOR(attention_sinks)         \
  OPERATOR(cached_attention)        \
  OPERATOR(paged_attention)         \
  OPERATOR(causal_conv)             \
  OPERATOR(gated_delta)             \
  OPERATOR(delta_pairs)             \
  OPERATOR(infer_linear)            \
  OPERATOR(weight_gradient)         \
  OPERATOR(grouped_linear)          \
  OPERATOR(low_rank)                \
  OPERATOR(fp8_linear)              \
  OPERATOR(dequantise)              \
  OPERATOR(router)                  \
  OPERATOR(moe_permute)             \
  OPERATOR(dropout_add)             \
  OPERATOR(cross_entropy)           \
  OPERATOR(accumulate)              \
  OPERATOR(gradient_norm)           \
  OPERATOR(adamw)
