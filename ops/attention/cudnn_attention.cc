#include "ops/attention/cudnn_attention.h"

#include <ATen/Context.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention_backward.h>
#include <ATen/ops/empty.h>

#include "core/base/error.h"

namespace trireme {
namespace {

// [rows, heads, length, dim] of [rows, kv_heads, length(, group), dim], in memory token by token: a view
// where it is so already. The output and its gradient have the same layout. ATen keeps cuDNN's plans by the
// strides of query, key and value alone: with another layout of the output it would read it by a plan that
// was made for this one.
at::Tensor TokenByToken(const at::Tensor& heads) {
  const auto size = heads.sizes();
  return heads.transpose(1, 2).contiguous().view({size[0], size[2], -1, heads.size(-1)}).transpose(1, 2);
}

// The same of [rows · length, heads · dim].
at::Tensor HeadByHead(const at::Tensor& lines, const Heads& heads) {
  const auto size = heads.query.sizes();
  return lines.view({size[0], size[2], size[1] * size[3], size[4]}).transpose(1, 2);
}

}  // namespace

std::string WhyNotCudnnAttention(const at::Tensor& query) {
  if (!query.is_cuda()) return "cuDNN is for a GPU";
  if (query.scalar_type() != at::kBFloat16 && query.scalar_type() != at::kHalf) return "cuDNN takes bf16 and fp16";
  if (at::globalContext().deterministicAlgorithms()) return "cuDNN sums the gradient of the queries in any order";
  if (query.dim() != 5) return "";  // asked without a shape
  const int64_t dim = query.size(4);
  if (query.numel() == 0) return "there are no queries";
  return dim % 8 == 0 && dim <= 128 ? "" : Concat("heads of ", dim, "; cuDNN takes multiples of 8 up to 128");
}

AttentionResult CudnnAttention(const Heads& heads) {
  const auto out = at::_scaled_dot_product_cudnn_attention(
      TokenByToken(heads.query), TokenByToken(heads.key), TokenByToken(heads.value), /*attn_bias=*/{},
      /*compute_log_sumexp=*/true,
      /*dropout_p=*/0.0, /*is_causal=*/true, /*return_debug_mask=*/false);
  const int64_t tokens = heads.query.size(0) * heads.query.size(2);
  return {std::get<0>(out).transpose(1, 2).reshape({tokens, -1}), std::get<1>(out)};
}

Heads CudnnAttentionBackward(const Heads& heads, const AttentionResult& result, const at::Tensor& output_gradient) {
  const at::Tensor unused = at::empty({}, heads.query.options().dtype(at::kLong));  // of dropout, which is 0
  const auto [query, key, value] = at::_scaled_dot_product_cudnn_attention_backward(
      HeadByHead(output_gradient, heads), TokenByToken(heads.query), TokenByToken(heads.key), TokenByToken(heads.value),
      HeadByHead(result.output, heads), result.log_sum_exp, unused, unused,
      /*attn_bias=*/{}, /*cum_seq_q=*/{},
      /*cum_seq_k=*/{}, heads.query.size(2), heads.key.size(2), /*dropout_p=*/0.0, /*is_causal=*/true);
  const auto size = heads.query.sizes();
  return {query.view({size[0], size[1], size[3], size[2], size[4]}).transpose(2, 3), key, value};
}

}  // namespace trireme
