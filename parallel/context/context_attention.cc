#include "parallel/context/context_attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "ops/attention/attention_blocks.h"
#include "ops/attention/sinks.h"
#include "parallel/context/ring.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Saved : torch::CustomClassHolder {
  Saved(const AttentionRule& rule, std::shared_ptr<const ContextPlan> plan, const ContextParallel& parallel,
        bool recompute)
      : rule(rule), plan(std::move(plan)), parallel(parallel), recompute(recompute) {}
  const AttentionRule rule;
  const std::shared_ptr<const ContextPlan> plan;
  const ContextParallel& parallel;
  const bool recompute;    // the result is not saved: whoever asks first computes it, whoever asks second takes it
  Heads heads;             // all tokens of the ring position, this rank's heads
  AttentionResult result;  // the output in lines, see below, and the log-sum-exp of that attention
  std::unique_ptr<HeadCopies> copies;

  AttentionResult Attend() const;
  // The sinks of the heads that this rank attends with, in the order of `heads`: [kv_heads, group]; also of gradients.
  at::Tensor SinksHere(const at::Tensor& all) const {
    const at::Tensor by_head = all.view({copies->kv_heads * copies->copies, copies->group / copies->copies});
    return by_head.chunk(parallel.ulysses)[static_cast<size_t>(parallel.split().ulysses_rank())];
  }
  AttentionResult Take() {
    if (!recompute || result.output.defined()) return std::exchange(result, {});
    result = Attend();
    return result;
  }
};

// [rows, kv_heads, length, group, dim] from and to [rows · length, kv_heads · group · dim].
at::Tensor ToLines(const at::Tensor& heads) {
  return heads.transpose(1, 2).reshape({heads.size(0) * heads.size(2), -1});
}
at::Tensor FromLines(const at::Tensor& lines, const HeadCopies& copies, int64_t rows) {
  return lines.view({rows, lines.size(0) / rows, copies.kv_heads, copies.group, -1}).transpose(1, 2);
}

AttentionResult Saved::Attend() const {
  const at::NoGradGuard no_graph;
  const PartialAttention partial = RingAttention(heads, rule, *plan, parallel);
  if (rule.sinks != nullptr) ApplySinks(partial, SinksHere(rule.sinks->value));
  const at::Tensor output = TokensForHeads({partial.output.to(heads.query.scalar_type())}, parallel)[0];
  return {ToLines(copies->JoinQuery(output)), partial.log_sum_exp};
}

// A ring sends keys and values, and loops on the host read one head after another. A device's fused operators take the
// projections' own order, token by token: a copy would be saved in addition to what the projections save.
at::Tensor InOrder(const at::Tensor& heads, const ContextParallel& parallel) {
  return parallel.ring > 1 || heads.is_cpu() ? heads.contiguous() : heads;
}

struct ContextAttentionFunction : torch::autograd::Function<ContextAttentionFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value, const c10::intrusive_ptr<Saved>& saved) {
    const ContextParallel& parallel = saved->parallel;
    saved->copies = std::make_unique<HeadCopies>(Heads{query, key, value}, parallel);
    const HeadCopies& copies = *saved->copies;
    const std::vector<at::Tensor> all = HeadsForTokens(
        {copies.SplitQuery(query.detach()), copies.Repeat(key.detach()), copies.Repeat(value.detach())}, parallel);
    saved->heads = {InOrder(all[0], parallel), InOrder(all[1], parallel), InOrder(all[2], parallel)};
    const AttentionResult result = saved->Attend();
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
    auto* saved = static_cast<Saved*>(holder.get());
    const HeadCopies& copies = *saved->copies;
    const int64_t rows = saved->heads.query.size(0);
    const at::ScalarType type = saved->heads.query.scalar_type();
    const auto by_head = [&](const at::Tensor& lines) { return copies.SplitQuery(FromLines(lines, copies, rows)); };
    AttentionResult result = saved->Take();
    if (!saved->recompute) result.output = context->get_saved_variables()[0];
    const std::vector<at::Tensor> spread =
        HeadsForTokens({by_head(gradients[0].contiguous()), by_head(result.output)}, saved->parallel);
    const AttendedQueries queries(result.log_sum_exp, spread[0], spread[1]);
    if (const Weight* sinks = saved->rule.sinks; sinks != nullptr && sinks->trained()) {
      saved->SinksHere(sinks->gradient_sum()).add_(SinksGradient(queries, saved->SinksHere(sinks->value)));
    }
    const Heads sums = RingAttentionBackward(saved->heads, saved->rule, *saved->plan, queries, saved->parallel);
    const std::vector<at::Tensor> back =
        TokensForHeads({sums.query.to(type), sums.key.to(type), sums.value.to(type)}, saved->parallel);
    context->saved_data.clear();
    return {copies.JoinQuery(back[0]), copies.Sum(back[1]), copies.Sum(back[2]), at::Tensor()};
  }
};

}  // namespace

at::Tensor ContextAttention(const Heads& heads, const AttentionRule& rule, std::shared_ptr<const ContextPlan> plan,
                            const ContextParallel& parallel) {
  return ContextAttentionFunction::apply(
      heads.query, heads.key, heads.value,
      c10::make_intrusive<Saved>(rule, std::move(plan), parallel, /*recompute=*/false));
}

Attended ContextAttentionAgain(const Heads& heads, const AttentionRule& rule, std::shared_ptr<const ContextPlan> plan,
                               const ContextParallel& parallel) {
  if (parallel.split().size() > 1) return {ContextAttention(heads, rule, std::move(plan), parallel), {}};
  auto saved = c10::make_intrusive<Saved>(rule, std::move(plan), parallel, /*recompute=*/true);
  const at::Tensor output = ContextAttentionFunction::apply(heads.query, heads.key, heads.value, saved);
  return {output, [saved] { return saved->Take().output; }};
}

}  // namespace trireme
