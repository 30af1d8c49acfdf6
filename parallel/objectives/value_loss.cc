#include "parallel/objectives/value_loss.h"

#include <ATen/ATen.h>

#include "core/base/error.h"
#include "parallel/objectives/policy_facts.h"

namespace trireme {
namespace {

// As if hidden states had not been multiplied by the scale.
at::Tensor WeightOf(const ValueWeights& weights) {
  const at::Tensor weight = weights.weight.value.to(at::kFloat);
  return weights.scale == 1 ? weight : weight / weights.scale;
}

// by_value: [states]; states: [states, hidden] fp32.
void AddToWeights(const ValueWeights& weights, const at::Tensor& by_value, const at::Tensor& states) {
  if (weights.weight.trained()) {
    const at::Tensor sum = at::mm(by_value.unsqueeze(0), states);
    weights.weight.gradient_sum().add_(weights.scale == 1 ? sum : sum / weights.scale);
  }
  if (weights.bias != nullptr && weights.bias->trained()) weights.bias->gradient_sum().add_(by_value.sum());
}

}  // namespace

ValueWeights ValueHeadOf(const HeadStates& head) {
  TRIREME_CHECK(head.value != nullptr && head.value_bias != nullptr) << "the model has no value head beside its logits";
  return {.weight = *head.value, .bias = head.value_bias, .scale = head.logit_scale};
}

at::Tensor ValuesOf(const at::Tensor& states, const ValueWeights& weights) {
  const at::Tensor values = at::mm(states, WeightOf(weights).t()).squeeze(1);
  return weights.bias == nullptr ? values : values + weights.bias->value.to(at::kFloat);
}

// Of a maximum of two equal values the derivative is the mean of both.
ValueLoss::Differentiated ValueLoss::Differentiate(const at::Tensor& values, PassContext& pass) const {
  const ValueFacts& facts = pass.input.facts.Get<ValueFacts>();
  const double share = pass.totals.per_trained();
  const at::Tensor low = facts.old - range_, high = facts.old + range_;
  const at::Tensor clipped = at::minimum(at::maximum(values, low), high);
  const at::Tensor within = values.ge(low).logical_and(values.le(high)).to(values.dtype());
  const at::Tensor free = values - facts.returns, bound = clipped - facts.returns;
  const at::Tensor first = free * free, second = bound * bound;
  const at::Tensor loss = at::maximum(first, second).sum() * (share / 2);
  pass.output->Add(sum_, loss);
  pass.output->Add(kValueClips, second.gt(first).to(at::kFloat).sum() * share);
  const at::Tensor chosen =
      at::where(first.eq(second), at::full_like(values, 0.5), first.gt(second).to(values.dtype()));
  return {.loss = loss, .by_value = (chosen * free + (1 - chosen) * bound * within) * share};
}

at::Tensor ValueLoss::Add(const HeadStates& head, const ValueWeights& weights, PassContext& pass,
                          const at::Tensor& gradient) const {
  const at::Tensor& hidden = head.hidden.at(0);
  const at::Tensor& positions = pass.input.facts.Get<ValueFacts>().positions;
  const at::Tensor states = hidden.index_select(0, positions).to(at::kFloat);
  const Differentiated found = Differentiate(ValuesOf(states, weights), pass);
  if (!pass.options.differentiate) return found.loss;
  const at::Tensor by_value = found.by_value * weight_;
  AddToWeights(weights, by_value, states);
  // All tensor-parallel ranks compute the same: one of them is the whole sum.
  if (head.tensor.rank() == 0) {
    gradient.index_add_(0, positions, (by_value.unsqueeze(1) * WeightOf(weights)).to(hidden.scalar_type()));
  }
  return found.loss;
}

}  // namespace trireme
