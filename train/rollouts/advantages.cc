#include "train/rollouts/advantages.h"

#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "stages/stage.h"

namespace trireme {
namespace {

constexpr double kNoReward = std::numeric_limits<double>::quiet_NaN();
constexpr double kLeastDeviation = 1e-4;  // added to what is divided by

double SumOf(std::span<const double> values, int64_t& count) {
  double sum = 0;
  for (const double value : values) {
    if (std::isnan(value)) continue;
    sum += value;
    ++count;
  }
  return sum;
}

// Each minus the mean of its group, over the group's deviation where asked for.
void AddGroup(std::span<const double> group, bool scales, std::vector<double>& advantages) {
  const double mean = MeanOf(group), deviation = scales ? DeviationOf(group) : 0;
  for (const double value : group) advantages.push_back((value - mean) / (scales ? deviation + kLeastDeviation : 1));
}

// Each minus the mean of the others.
void AddLeftOut(std::span<const double> group, std::vector<double>& advantages) {
  int64_t count = 0;
  const double sum = SumOf(group, count);
  for (const double value : group) {
    advantages.push_back(count > 1 ? value - (sum - value) / static_cast<double>(count - 1) : 0);
  }
}

void DivideBy(double deviation, std::vector<double>& values) {
  for (double& value : values) value /= deviation + kLeastDeviation;
}

}  // namespace

double MeanOf(std::span<const double> values) {
  int64_t count = 0;
  const double sum = SumOf(values, count);
  return count > 0 ? sum / static_cast<double>(count) : kNoReward;
}

double DeviationOf(std::span<const double> values) {
  const double mean = MeanOf(values);
  double squares = 0;
  int64_t count = 0;
  for (const double value : values) {
    if (std::isnan(value)) continue;
    squares += (value - mean) * (value - mean);
    ++count;
  }
  return count > 1 ? std::sqrt(squares / static_cast<double>(count - 1)) : kNoReward;
}

std::vector<double> TotalsOf(const RewardTable& table) {
  const size_t completions = table.rewards.empty() ? 0 : table.rewards[0].size();
  std::vector<double> totals(completions, kNoReward);
  for (size_t name = 0; name < table.rewards.size(); ++name) {
    for (size_t i = 0; i < completions; ++i) {
      if (std::isnan(table.rewards[name][i])) continue;
      totals[i] = (std::isnan(totals[i]) ? 0 : totals[i]) + table.weights[name] * table.rewards[name][i];
    }
  }
  return totals;
}

std::vector<double> AdvantagesOf(const std::vector<double>& totals, int64_t group, const Config& config) {
  TRIREME_CHECK(std::ssize(totals) % group == 0) << totals.size() << " completions in groups of " << group;
  const ScaleRewards scale = config.rl().scale_rewards();
  const Baseline baseline = FactsOf(config).baseline;
  const bool scales = baseline == Baseline::kGroup;
  std::vector<double> advantages;
  for (size_t first = 0; first < totals.size(); first += static_cast<size_t>(group)) {
    const std::span<const double> one(totals.data() + first, static_cast<size_t>(group));
    if (baseline == Baseline::kOthers) {
      AddLeftOut(one, advantages);
    } else {
      AddGroup(one, scales && scale == SCALE_GROUP, advantages);
    }
  }
  if (scales && scale == SCALE_BATCH) DivideBy(DeviationOf(totals), advantages);
  if (baseline == Baseline::kBatch) DivideBy(DeviationOf(advantages), advantages);
  for (double& advantage : advantages) advantage = std::isnan(advantage) ? 0 : advantage;
  return advantages;
}

}  // namespace trireme
