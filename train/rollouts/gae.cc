#include "train/rollouts/gae.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr double kLeastVariance = 1e-8;  // added to what is divided by
constexpr double kMostKlError = 0.2;     // a larger one is taken for this

// Minus the mean, over the standard deviation (unbiased); keeps_mean: the mean is added again.
void Whiten(TokenNumbers& numbers, bool keeps_mean) {
  double sum = 0, squares = 0;
  int64_t count = 0;
  for (const std::vector<float>& row : numbers) {
    for (const float value : row) sum += value;
    count += std::ssize(row);
  }
  const double mean = sum / static_cast<double>(std::max<int64_t>(count, 1));
  for (const std::vector<float>& row : numbers) {
    for (const float value : row) squares += (value - mean) * (value - mean);
  }
  const double variance = squares / static_cast<double>(std::max<int64_t>(count - 1, 1));
  const double scale = 1 / std::sqrt(variance + kLeastVariance);
  for (std::vector<float>& row : numbers) {
    for (float& value : row) value = static_cast<float>((value - mean) * scale + (keeps_mean ? mean : 0));
  }
}

double KlOf(double policy, double reference, KlEstimator estimator) {
  const double apart = reference - policy;
  return estimator == KL_K1 ? -apart : std::expm1(apart) - apart;
}

size_t LongestOf(const TokenNumbers& numbers) {
  size_t longest = 0;
  for (const std::vector<float>& row : numbers) longest = std::max(longest, row.size());
  return longest;
}

// Adds the KL of each completion, too.
TokenNumbers RewardsOf(const PpoFacts& facts, const RlConfig& rl, double kl_coefficient, PpoTargets& targets) {
  const size_t longest = LongestOf(facts.old);
  const auto completions = static_cast<double>(std::max<size_t>(facts.old.size(), 1));
  TokenNumbers rewards;
  for (size_t i = 0; i < facts.old.size(); ++i) {
    const std::vector<float>& old = facts.old[i];
    const size_t after = facts.values[i].size() - old.size();  // states
    TRIREME_CHECK(!old.empty() && after <= 1) << facts.values[i].size() << " values for " << old.size() << " tokens";
    std::vector<float>& row = rewards.emplace_back(old.size() + (old.size() < longest ? after : 0), 0.0F);
    for (size_t t = 0; t < old.size(); ++t) {
      targets.entropy -= old[t] / completions;
      if (facts.reference.empty()) continue;
      const double kl = KlOf(old[t], facts.reference[i][t], rl.kl_estimator());
      targets.kl += kl / completions;
      row[t] = static_cast<float>(-kl_coefficient * kl);
    }
    row.back() += static_cast<float>(facts.scores[i]);
  }
  return rewards;
}

// Backwards from the end, after which values are 0.
std::vector<float> AdvantagesOfStates(const std::vector<float>& rewards, const std::vector<float>& values,
                                      const RlConfig& rl) {
  std::vector<float> advantages(rewards.size());
  double later = 0, next_value = 0;
  for (size_t t = rewards.size(); t-- > 0;) {
    const double difference = rewards[t] + rl.gamma() * next_value - values[t];
    later = difference + rl.gamma() * rl.lam() * later;
    advantages[t] = static_cast<float>(later);
    next_value = values[t];
  }
  return advantages;
}

}  // namespace

PpoTargets TargetsOf(const PpoFacts& facts, const RlConfig& rl, double kl_coefficient) {
  PpoTargets targets;
  targets.rewards = RewardsOf(facts, rl, kl_coefficient, targets);
  if (rl.whiten_rewards()) Whiten(targets.rewards, /*keeps_mean=*/true);
  for (size_t i = 0; i < facts.old.size(); ++i) {
    std::vector<float> advantages = AdvantagesOfStates(targets.rewards[i], facts.values[i], rl);
    std::vector<float>& returns = targets.returns.emplace_back();
    for (size_t t = 0; t < advantages.size(); ++t) returns.push_back(advantages[t] + facts.values[i][t]);
    advantages.resize(facts.old[i].size());
    targets.advantages.push_back(std::move(advantages));
  }
  Whiten(targets.advantages, /*keeps_mean=*/false);
  return targets;
}

double NextKlCoefficient(double coefficient, double kl, int64_t completions, const RlConfig& rl) {
  if (rl.kl_target() == 0) return coefficient;
  const double error = std::clamp(kl / rl.kl_target() - 1, -kMostKlError, kMostKlError);
  return coefficient * (1 + error * static_cast<double>(completions) / rl.kl_horizon());
}

}  // namespace trireme
