// The loss of a value model beside a policy (PPO): half the squared difference between the value of a completion's state and
// its return, where a value that moved too far from the old one counts as if it had stopped there; mean over all states of
// the update. Facts of states are in PassInput::value. The gradient is that of rl.vf_coef times the loss. Sums: `loss`, and
// `val/clipfrac_avg`, the fraction of states whose value was clipped.
#include <ATen/ATen.h>

#include <memory>

#include "core/config.pb.h"
#include "parallel/objectives/objective.h"

namespace trireme {
namespace {

constexpr char kValueClips[] = "val/clipfrac_avg";

class ValueObjective : public Objective {
 public:
  explicit ValueObjective(const RlConfig& rl) : range_(rl.cliprange_value()), weight_(rl.vf_coef()) {}
  bool needs_scores() const override { return true; }
  std::vector<std::string> SumNames(int64_t /*mtp_depths*/) const override { return {"loss", kValueClips}; }
  std::vector<at::Tensor> Run(const HeadStates& head, PassContext& pass) const override;

 private:
  // Adds the micro batch's sums; d loss / d value of each state: [states] fp32.
  at::Tensor Differentiate(const at::Tensor& values, const PassContext& pass) const;

  const double range_, weight_;
};

// Of a maximum of two equal values the derivative is the mean of both.
at::Tensor ValueObjective::Differentiate(const at::Tensor& values, const PassContext& pass) const {
  const ValueFacts& facts = pass.input.value;
  const double share = pass.totals.per_trained();
  const at::Tensor low = facts.old - range_, high = facts.old + range_;
  const at::Tensor clipped = at::minimum(at::maximum(values, low), high);
  const at::Tensor within = values.ge(low).logical_and(values.le(high)).to(values.dtype());
  const at::Tensor free = values - facts.returns, bound = clipped - facts.returns;
  const at::Tensor first = free * free, second = bound * bound;
  pass.output->Add("loss", at::maximum(first, second).sum() * (share / 2));
  pass.output->Add(kValueClips, second.gt(first).to(at::kFloat).sum() * share);
  const at::Tensor chosen = at::where(first.eq(second), at::full_like(values, 0.5), first.gt(second).to(values.dtype()));
  return (chosen * free + (1 - chosen) * bound * within) * share;
}

std::vector<at::Tensor> ValueObjective::Run(const HeadStates& head, PassContext& pass) const {
  const at::Tensor& hidden = head.hidden.at(0);
  const at::Tensor weight = head.weight.value.to(at::kFloat);  // [1, hidden]
  if (pass.options.wants.scores) pass.output->scores = at::mm(hidden.to(at::kFloat), weight.t()).squeeze(1);
  const at::Tensor& positions = pass.input.value.positions;
  if (!positions.defined()) return {{}};  // values are asked for
  const at::Tensor states = hidden.index_select(0, positions).to(at::kFloat);
  const at::Tensor by_value = Differentiate(at::mm(states, weight.t()).squeeze(1), pass) * weight_;
  if (!pass.options.differentiate) return {{}};
  const at::Tensor factors = by_value.unsqueeze(1);  // [states, 1]
  if (head.weight.trained()) head.weight.gradient_sum().add_(at::mm(factors.t(), states));
  const at::Tensor gradient = at::zeros_like(hidden);
  // All tensor-parallel ranks compute the same: one of them is the whole sum.
  if (head.tensor.rank() == 0) gradient.index_copy_(0, positions, (factors * weight).to(hidden.scalar_type()));
  return {gradient};
}

}  // namespace

std::unique_ptr<Objective> MakeValueLoss(const Config& config) { return std::make_unique<ValueObjective>(config.rl()); }

}  // namespace trireme
