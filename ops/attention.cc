#include "ops/attention.h"

#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "ops/attention_blocks.h"
#include "ops/choose.h"
#include "ops/npu_fused.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Through autograd's own graph: torch_npu's fused operator on an npu, ATen's elsewhere.
at::Tensor Composed(const Heads& heads) {
  const auto size = heads.query.sizes();
  const at::Tensor query =
      heads.query.transpose(2, 3).reshape({size[0], size[1] * size[3], size[2], size[4]});
  const at::Tensor result =
      npu::Takes(query)
          ? npu::CausalAttention(query, heads.key, heads.value, 1 / std::sqrt(static_cast<double>(size[4])))
          : at::scaled_dot_product_attention(query, heads.key, heads.value, /*attn_mask=*/{},
                                             /*dropout_p=*/0.0,
                                             /*is_causal=*/true, /*scale=*/{}, /*enable_gqa=*/size[3] != 1);
  return result.transpose(1, 2).reshape({size[0] * size[2], -1});
}

// What is kept of one attention until its backward pass. With `again` set the result is not: whoever asks
// first computes it, whoever asks second takes it away.
struct Kept : torch::CustomClassHolder {
  Heads heads;
  AttentionResult result;
  bool recompute = false;

  AttentionResult Take() {
    if (!recompute || result.output.defined()) return std::exchange(result, {});
    result = BlockedAttention(heads);
    return result;
  }
};

struct AttentionFunction : torch::autograd::Function<AttentionFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value, const c10::intrusive_ptr<Kept>& kept) {
    AttentionResult result = BlockedAttention(kept->heads);
    context->saved_data["kept"] = c10::IValue::make_capsule(kept);
    if (!kept->recompute) {
      // The output goes through autograd's own keeping: held here it would hold its own graph alive.
      context->save_for_backward({result.output});
      kept->result.log_sum_exp = result.log_sum_exp;
    }
    return result.output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto holder = context->saved_data["kept"].toCapsule();
    auto* kept = static_cast<Kept*>(holder.get());
    AttentionResult result = kept->Take();
    if (!kept->recompute) result.output = context->get_saved_variables()[0];
    const Heads heads = BlockedAttentionBackward(kept->heads, result, gradients[0].contiguous());
    context->saved_data.clear();
    return {heads.query, heads.key, heads.value, at::Tensor()};
  }
};

Attended Run(const Heads& heads, bool recompute) {
  auto kept = c10::make_intrusive<Kept>();
  kept->heads = {heads.query.detach().contiguous(), heads.key.detach().contiguous(),
                 heads.value.detach().contiguous()};
  kept->recompute = recompute;
  const at::Tensor output = AttentionFunction::apply(heads.query, heads.key, heads.value, kept);
  return {output, [kept] { return kept->Take().output; }};
}

}  // namespace

at::Tensor CausalAttention(const Heads& heads) {
  return FastOnCpu(heads.query) ? Run(heads, /*recompute=*/false).output : Composed(heads);
}

Attended CausalAttentionAgain(const Heads& heads) {
  if (FastOnCpu(heads.query)) return Run(heads, /*recompute=*/true);
  const Heads kept{heads.query.detach(), heads.key.detach(), heads.value.detach()};
  return {Composed(heads), [kept] { return Composed(kept); }};
}

at::Tensor CausalAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  const int64_t rows = query.size(0), length = query.size(1), kv_heads = key.size(2);
  const at::Tensor grouped = query.reshape({rows, length, kv_heads, -1, query.size(3)}).transpose(1, 2);
  const Heads heads{grouped.contiguous(), key.transpose(1, 2).contiguous(),
                    value.transpose(1, 2).contiguous()};
  return CausalAttention(heads).view(query.sizes());
}

}  // namespace trireme
