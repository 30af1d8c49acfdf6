#include "parallel/context/context_attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "parallel/context/ring.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Saved : torch::CustomClassHolder {
  Saved(double scale, std::shared_ptr<const ContextPlan> plan, const ContextParallel& parallel)
      : scale(scale), plan(std::move(plan)), parallel(parallel) {}
  const double scale;
  const std::shared_ptr<const ContextPlan> plan;
  const ContextParallel& parallel;
  Heads heads;             // all tokens of the ring position, this rank's heads
  at::Tensor log_sum_exp;  // of that attention
  std::unique_ptr<HeadCopies> copies;
};

// [rows, kv_heads, length, group, dim] from and to [rows · length, kv_heads · group · dim].
at::Tensor ToLines(const at::Tensor& heads) {
  return heads.transpose(1, 2).reshape({heads.size(0) * heads.size(2), -1});
}
at::Tensor FromLines(const at::Tensor& lines, const HeadCopies& copies, int64_t rows) {
  return lines.view({rows, lines.size(0) / rows, copies.kv_heads, copies.group, -1}).transpose(1, 2);
}

struct ContextAttentionFunction : torch::autograd::Function<ContextAttentionFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value, const c10::intrusive_ptr<Saved>& saved) {
    saved->copies = std::make_unique<HeadCopies>(Heads{query, key, value}, saved->parallel);
    const HeadCopies& copies = *saved->copies;
    const std::vector<at::Tensor> all =
        HeadsForTokens({copies.SplitQuery(query), copies.Repeat(key), copies.Repeat(value)}, saved->parallel);
    saved->heads = {all[0].contiguous(), all[1].contiguous(), all[2].contiguous()};
    PartialAttention partial = RingAttention(saved->heads, saved->scale, *saved->plan, saved->parallel);
    saved->log_sum_exp = partial.log_sum_exp;
    const at::Tensor output = TokensForHeads({partial.output.to(query.scalar_type())}, saved->parallel)[0];
    const at::Tensor lines = ToLines(copies.JoinQuery(output));
    context->saved_data["saved"] = c10::IValue::make_capsule(saved);
    context->save_for_backward({lines});
    return lines;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto holder = context->saved_data["saved"].toCapsule();
    auto* saved = static_cast<Saved*>(holder.get());
    const HeadCopies& copies = *saved->copies;
    const int64_t rows = saved->heads.query.size(0);
    const at::ScalarType type = saved->heads.query.scalar_type();
    const auto by_head = [&](const at::Tensor& lines) {
      return copies.SplitQuery(FromLines(lines, copies, rows));
    };
    const std::vector<at::Tensor> spread = HeadsForTokens(
        {by_head(gradients[0].contiguous()), by_head(context->get_saved_variables()[0])}, saved->parallel);
    const AttendedQueries queries(saved->log_sum_exp, spread[0], spread[1]);
    const Heads sums =
        RingAttentionBackward(saved->heads, saved->scale, *saved->plan, queries, saved->parallel);
    const std::vector<at::Tensor> back =
        TokensForHeads({sums.query.to(type), sums.key.to(type), sums.value.to(type)}, saved->parallel);
    context->saved_data.clear();
    return {copies.JoinQuery(back[0]), copies.Sum(back[1]), copies.Sum(back[2]), at::Tensor()};
  }
};

}  // namespace

at::Tensor ContextAttention(const Heads& heads, double scale, std::shared_ptr<const ContextPlan> plan,
                            const ContextParallel& parallel) {
  return ContextAttentionFunction::apply(heads.query, heads.key, heads.value,
                                         c10::make_intrusive<Saved>(scale, std::move(plan), parallel));
}

}  // namespace trireme
