#include "train/remote/losses.h"

#include <algorithm>
#include <cmath>

namespace trireme {
namespace {

const std::vector<LossKind>& Kinds() {
  static const std::vector<std::string> policy = {"logprobs", "advantages"};
  static const std::vector<LossKind> kinds = {
      {.name = "cross_entropy", .inputs = {"weights"}},
      {.name = "importance_sampling", .inputs = policy},
      {.name = "ppo", .inputs = policy, .clips = true, .clip_low = 0.8, .clip_high = 1.2},
      {.name = "cispo", .inputs = policy, .clips = true, .clip_low = 0.0, .clip_high = 4.0},
      {.name = "dro", .inputs = policy, .needs_beta = true},
      {.name = "gspo",
       .inputs = {"logprobs", "advantages", "sequence_ratio_mask"},
       .clips = true,
       .needs_thresholds = true}};
  return kinds;
}

// The ratio whose logarithm is the mean difference over the mask: the same for all positions.
double SequenceRatio(const LossInputs& inputs, const std::vector<double>& p) {
  double sum = 0, count = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    sum += inputs.sequence_ratio_mask[i] * (p[i] - inputs.logprobs[i]);
    count += inputs.sequence_ratio_mask[i];
  }
  return std::exp(sum / count);
}

struct Term {
  double loss = 0, weight = 0;
};

// -min(r·A, clamp(r)·A): no gradient where the clamped side is the smaller one, since the ratio is outside then.
Term Clipped(double ratio, double advantage, const LossNumbers& numbers) {
  const double free = ratio * advantage;
  const double held = std::clamp(ratio, numbers.clip_low, numbers.clip_high) * advantage;
  return held < free ? Term{-held, 0} : Term{-free, free};
}

Term TermOf(const std::string& name, const LossNumbers& numbers, double p, double q, double advantage) {
  const double ratio = std::exp(p - q);
  if (name == "ppo") return Clipped(ratio, advantage, numbers);
  if (name == "cispo") {
    const double weight = std::clamp(ratio, numbers.clip_low, numbers.clip_high) * advantage;
    return {-weight * p, weight};
  }
  if (name == "dro") {
    const double apart = p - q;
    return {-(p * advantage - 0.5 * numbers.beta * apart * apart), advantage - numbers.beta * apart};
  }
  return {-ratio * advantage, ratio * advantage};  // importance_sampling
}

}  // namespace

const LossKind* FindLoss(const std::string& name) {
  for (const LossKind& kind : Kinds()) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

std::vector<std::string> LossNames() {
  std::vector<std::string> names;
  for (const LossKind& kind : Kinds()) names.push_back(kind.name);
  return names;
}

LossValue EvaluateLoss(const LossKind& kind, const LossNumbers& numbers, const LossInputs& inputs,
                       const std::vector<double>& p) {
  LossValue value;
  if (kind.name == "cross_entropy") {
    value.weights = inputs.weights;
    for (size_t i = 0; i < p.size(); ++i) value.loss -= inputs.weights[i] * p[i];
    return value;
  }
  const bool by_sequence = kind.name == "gspo";
  const double of_sequence = by_sequence ? SequenceRatio(inputs, p) : 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const Term term = by_sequence ? Clipped(of_sequence, inputs.advantages[i], numbers)
                                  : TermOf(kind.name, numbers, p[i], inputs.logprobs[i], inputs.advantages[i]);
    value.loss += term.loss;
    value.weights.push_back(static_cast<float>(term.weight));
  }
  return value;
}

}  // namespace trireme
