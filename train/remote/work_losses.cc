#include "train/remote/work_losses.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "parallel/objectives/policy_terms.h"

namespace trireme {
namespace {

template <typename Number>
at::Tensor Doubles(const std::vector<Number>& values) {
  return at::tensor(values).to(at::kDouble);
}

// The ratio whose logarithm is the mean difference over the mask, the same for all positions: each pulls with it.
at::Tensor SequenceRatios(const at::Tensor& apart, const at::Tensor& mask) {
  return ((apart * mask).sum() / mask.sum()).exp().expand_as(apart);
}

TermLoss TermOf(const std::string& name, const LossNumbers& numbers, const at::Tensor& log_probs,
                const at::Tensor& apart, const at::Tensor& ratios, const at::Tensor& advantages) {
  if (name == "cispo")
    return CispoTerm(ratios, advantages, log_probs, {.low = numbers.clip_low, .high = numbers.clip_high});
  if (name == "dro") {
    return {.value = apart.square() * (0.5 * numbers.beta) - log_probs * advantages,
            .by_ratio = at::zeros_like(ratios),
            .by_log_prob = apart * numbers.beta - advantages};
  }
  if (name == "importance_sampling")
    return ClippedTerm(ratios, advantages, {.low = 0, .high = std::numeric_limits<double>::infinity()});
  return ClippedTerm(ratios, advantages, {.low = numbers.clip_low, .high = numbers.clip_high});  // ppo, gspo
}

LossValue CrossEntropy(const LossInputs& inputs, const std::vector<double>& p) {
  LossValue value{.weights = inputs.weights};
  for (size_t i = 0; i < p.size(); ++i) value.loss -= inputs.weights[i] * p[i];
  return value;
}

}  // namespace

LossValue EvaluateLoss(const LossKind& kind, const LossNumbers& numbers, const LossInputs& inputs,
                       const std::vector<double>& p) {
  if (kind.name == "cross_entropy") return CrossEntropy(inputs, p);
  const at::Tensor log_probs = Doubles(p), apart = log_probs - Doubles(inputs.logprobs),
                   advantages = Doubles(inputs.advantages);
  const at::Tensor ratios =
      kind.name == "gspo" ? SequenceRatios(apart, Doubles(inputs.sequence_ratio_mask)) : apart.exp();
  const TermLoss term = TermOf(kind.name, numbers, log_probs, apart, ratios, advantages);
  // A ratio that overflows does no harm where it is clipped.
  const at::Tensor held = term.by_ratio.eq(0).logical_and(advantages.ne(0));
  const at::Tensor chained = at::where(held, at::zeros_like(ratios), term.by_ratio * ratios);
  const at::Tensor weights = (term.by_log_prob + chained).neg().to(at::kFloat).contiguous();
  return {.loss = term.value.sum().item<double>(),
          .weights = {weights.data_ptr<float>(), weights.data_ptr<float>() + weights.numel()}};
}

TokenTable WeighWork(const TrainWork& work, const TokenTable& found, size_t first_row, TrainOutcome& outcome) {
  TokenTable weights;
  const LossKind& kind = *FindLoss(work.loss);
  for (size_t i = 0; i < work.rows.size(); ++i) {
    LossValue value = EvaluateLoss(kind, work.numbers, work.rows[i].inputs, found[first_row + i]);
    outcome.loss += value.loss;
    if (!std::all_of(value.weights.begin(), value.weights.end(), [](float weight) { return std::isfinite(weight); })) {
      outcome.error = Concat("row ", i, ": a ratio of probabilities overflows; are its logprobs of this model?");
      outcome.users_fault = true;
      value.weights.assign(value.weights.size(), 0.0F);
    }
    weights.emplace_back(value.weights.begin(), value.weights.end());
  }
  return weights;
}

}  // namespace trireme
