#include "parallel/objectives/policy_terms.h"

#include <ATen/ATen.h>

namespace trireme {

// Of a minimum of two equal values the derivative is the mean of both.
TermLoss ClippedTerm(const at::Tensor& ratios, const at::Tensor& advantages, const RatioBounds& bounds) {
  const bool bounded = bounds.most > 0;
  const at::Tensor within = ratios.ge(bounds.low).logical_and(ratios.le(bounds.high)).to(ratios.dtype());
  const at::Tensor held = bounded ? ratios.clamp_max(bounds.most) : ratios;
  const at::Tensor below = bounded ? ratios.le(bounds.most).to(ratios.dtype()) : at::ones_like(ratios);
  const at::Tensor first = held * advantages, second = ratios.clamp(bounds.low, bounds.high) * advantages;
  const at::Tensor share = at::where(first.eq(second), at::full_like(ratios, 0.5), first.lt(second).to(ratios.dtype()));
  return {.value = at::minimum(first, second).neg(),
          .by_ratio = (share * below + (1 - share) * within) * advantages.neg(),
          .by_log_prob = at::zeros_like(ratios)};
}

TermLoss CispoTerm(const at::Tensor& ratios, const at::Tensor& advantages, const at::Tensor& log_probs,
                   const RatioBounds& bounds) {
  const at::Tensor factor = ratios.clamp(bounds.low, bounds.high) * advantages.neg();
  return {.value = factor * log_probs, .by_ratio = at::zeros_like(ratios), .by_log_prob = factor};
}

TermLoss SapoTerm(const at::Tensor& ratios, const at::Tensor& advantages, const SapoTemperatures& temperatures) {
  const at::Tensor steepness = at::where(advantages.gt(0), at::full_like(ratios, temperatures.positive),
                                         at::full_like(ratios, temperatures.negative));
  const at::Tensor sigmoid = at::sigmoid(steepness * (ratios - 1));
  return {.value = sigmoid * 4 / steepness * advantages.neg(),
          .by_ratio = sigmoid * (1 - sigmoid) * 4 * advantages.neg(),
          .by_log_prob = at::zeros_like(ratios)};
}

}  // namespace trireme
