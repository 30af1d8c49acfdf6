#include "ops/attention/attention.h"

#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "ops/attention/attention_blocks.h"
#include "ops/attention/cudnn_attention.h"
#include "ops/attention/npu_attention.h"
#include "ops/operator.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// An operator over [rows, heads, length, head_dim] that autograd differentiates by its own graph.
template <typename Attend>
at::Tensor Composed(const Heads& heads, const Attend& attend) {
  const auto size = heads.query.sizes();
  const at::Tensor query = heads.query.transpose(2, 3).reshape({size[0], size[1] * size[3], size[2], size[4]});
  return attend(query).transpose(1, 2).reshape({size[0] * size[2], -1});
}

at::Tensor ReferenceAttention(const Heads& heads) {
  return Composed(heads, [&](const at::Tensor& query) {
    return at::scaled_dot_product_attention(query, heads.key, heads.value, /*attn_mask=*/{},
                                            /*dropout_p=*/0.0, /*is_causal=*/true, /*scale=*/{},
                                            /*enable_gqa=*/heads.query.size(3) != 1);
  });
}

// An attention whose backward pass is its own.
struct AttentionPasses {
  AttentionResult (*forward)(const Heads&);
  Heads (*backward)(const Heads&, const AttentionResult&, const at::Tensor& output_gradient);
};
constexpr AttentionPasses kBlocked{BlockedAttention, BlockedAttentionBackward};
constexpr AttentionPasses kCudnn{CudnnAttention, CudnnAttentionBackward};
constexpr AttentionPasses kNpu{NpuAttention, NpuAttentionBackward};

// What is kept of one attention until its backward pass. With `again` set the result is not: whoever asks
// first computes it, whoever asks second takes it away.
struct SavedAttention : torch::CustomClassHolder {
  const AttentionPasses* passes = nullptr;
  Heads heads;
  AttentionResult result;
  bool recompute = false;

  AttentionResult Take() {
    if (!recompute || result.output.defined()) return std::exchange(result, {});
    result = passes->forward(heads);
    return result;
  }
};

struct AttentionFunction : torch::autograd::Function<AttentionFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value, const c10::intrusive_ptr<SavedAttention>& saved) {
    AttentionResult result = saved->passes->forward(saved->heads);
    context->saved_data["saved"] = c10::IValue::make_capsule(saved);
    if (!saved->recompute) {
      // The output is saved through autograd: held here it would keep its own graph alive.
      context->save_for_backward({result.output});
      saved->result.log_sum_exp = result.log_sum_exp;
    }
    return result.output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto holder = context->saved_data["saved"].toCapsule();
    auto* saved = static_cast<SavedAttention*>(holder.get());
    AttentionResult result = saved->Take();
    if (!saved->recompute) result.output = context->get_saved_variables()[0];
    const Heads heads = saved->passes->backward(saved->heads, result, gradients[0].contiguous());
    context->saved_data.clear();
    return {heads.query, heads.key, heads.value, at::Tensor()};
  }
};

template <const AttentionPasses& passes>
Attended Run(const Heads& heads, bool recompute) {
  auto saved = c10::make_intrusive<SavedAttention>();
  saved->passes = &passes;
  saved->heads = {heads.query.detach(), heads.key.detach(), heads.value.detach()};
  if (&passes == &kBlocked) {
    for (at::Tensor* part : {&saved->heads.query, &saved->heads.key, &saved->heads.value}) *part = part->contiguous();
  }
  saved->recompute = recompute;
  const at::Tensor output = AttentionFunction::apply(heads.query, heads.key, heads.value, saved);
  return {output, [saved] { return saved->Take().output; }};
}

// With `recompute` an implementation saves only query, key and value.
template <at::Tensor (*attend)(const Heads&)>
Attended Differentiable(const Heads& heads, bool recompute) {
  if (!recompute) return {attend(heads), {}};
  const Heads saved{heads.query.detach(), heads.key.detach(), heads.value.detach()};
  return {attend(heads), [saved] { return attend(saved); }};
}

const ImplementationList<at::Tensor, decltype(&Run<kBlocked>)> kAttention{
    "attention",
    {{"cpu", WhyNoLoops, Run<kBlocked>},
     {"cudnn", WhyNotCudnnAttention, Run<kCudnn>},
     {"torch_npu", WhyNotNpuAttention, Run<kNpu>},
     {"aten", nullptr, Differentiable<ReferenceAttention>}}};

}  // namespace

at::Tensor CausalAttention(const Heads& heads) {
  return kAttention.Choose(heads.query).forward(heads, /*recompute=*/false).output;
}

Attended CausalAttentionAgain(const Heads& heads) {
  return kAttention.Choose(heads.query).forward(heads, /*recompute=*/true);
}

at::Tensor CausalAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  const int64_t rows = query.size(0), length = query.size(1), kv_heads = key.size(2);
  const at::Tensor grouped = query.reshape({rows, length, kv_heads, -1, query.size(3)}).transpose(1, 2);
  const Heads heads{grouped.contiguous(), key.transpose(1, 2).contiguous(), value.transpose(1, 2).contiguous()};
  return CausalAttention(heads).view(query.sizes());
}

namespace {

// Rows of at most 512 tokens, at most eight heads of 128 with two key-value heads.
std::vector<BenchCase> BenchAttention(const BenchSize& s) {
  constexpr int64_t kDim = 128, kGroup = 4;
  const int64_t length = std::min<int64_t>(s.rows, 512), rows = std::max<int64_t>(s.rows / length, 1);
  const int64_t kv_heads = s.columns >= 2 * kGroup * kDim ? 2 : 1;
  const at::Tensor query = BenchLeaf({rows, kv_heads, length, kGroup, kDim}, s.type);
  const at::Tensor key = BenchLeaf({rows, kv_heads, length, kDim}, s.type);
  const at::Tensor value = BenchLeaf({rows, kv_heads, length, kDim}, s.type);
  const auto bytes = static_cast<double>(2 * query.nbytes() + key.nbytes() + value.nbytes());
  return {{.forward_bytes = bytes,
           .backward_bytes = 2 * bytes,
           .input = query,
           .run = [=] { return BenchCase::Tensors{CausalAttention(Heads{query, key, value})}; },
           .shape = {rows, length, kv_heads * kGroup, kDim}}};
}

}  // namespace

Operator operators::attention() {
  return {.name = kAttention.op(),
          .summary = "causal attention over rows of equal length, grouped key-value heads",
          .implementations = kAttention.names(),
          .report =
              [](const at::Tensor& like) {
                return std::vector{kAttention.Report("[any, any]", like),
                                   kAttention.Report("[heads of 1024]", EmptyHeads(like, 1024, 1024).query)};
              },
          .bench = BenchAttention};
}

}  // namespace trireme
