#include "train/rollouts/rollout_metrics.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/base/error.h"
#include "core/base/text.h"
#include "stages/stage.h"

namespace trireme {
namespace {

void AddLengths(const std::string& name, const std::vector<double>& lengths, MetricValues& metrics) {
  if (lengths.empty()) {
    for (const char* kind : {"mean", "min", "max"}) metrics["completions/" + std::string(kind) + "_" + name] = 0;
    return;
  }
  metrics["completions/mean_" + name] = MeanOf(lengths);
  metrics["completions/min_" + name] = *std::ranges::min_element(lengths);
  metrics["completions/max_" + name] = *std::ranges::max_element(lengths);
}

void AddIfNumber(MetricValues& metrics, const std::string& name, double value) {
  if (!std::isnan(value)) metrics[name] = value;
}

constexpr double kClose = 1e-8;  // deviations up to it are none

// Of each group, or of all together where that is what advantages are divided by.
double ShareWithoutSpread(const std::vector<double>& totals, int64_t group, bool all) {
  const auto size = all ? totals.size() : static_cast<size_t>(group);
  int64_t without = 0, count = 0;
  for (size_t first = 0; first < totals.size(); first += size) {
    const double deviation = DeviationOf({totals.data() + first, size});
    without += deviation <= kClose;  // NaN is no deviation
    ++count;
  }
  return static_cast<double>(without) / static_cast<double>(std::max<int64_t>(count, 1));
}

}  // namespace

MetricValues RewardMetrics(const RewardTable& table, const Config& config) {
  MetricValues metrics;
  for (size_t i = 0; i < table.names.size(); ++i) {
    AddIfNumber(metrics, "rewards/" + table.names[i] + "/mean", MeanOf(table.rewards[i]));
    AddIfNumber(metrics, "rewards/" + table.names[i] + "/std", DeviationOf(table.rewards[i]));
  }
  const std::vector<double> totals = TotalsOf(table);
  AddIfNumber(metrics, "reward", MeanOf(totals));
  AddIfNumber(metrics, "reward_std", DeviationOf(totals));
  const bool all = FactsOf(config).baseline == Baseline::kGroup && config.rl().scale_rewards() == SCALE_BATCH;
  metrics["frac_reward_zero_std"] = ShareWithoutSpread(totals, table.group, all);
  return metrics;
}

MetricValues LengthMetrics(std::span<const Rollout> rollouts) {
  std::vector<double> lengths, ended;
  for (const Rollout& rollout : rollouts) {
    lengths.push_back(static_cast<double>(WrittenTokens(rollout)));
    if (!rollout.truncated) ended.push_back(lengths.back());
  }
  MetricValues metrics;
  AddLengths("length", lengths, metrics);
  AddLengths("terminated_length", ended, metrics);
  metrics["completions/clipped_ratio"] =
      1 - static_cast<double>(ended.size()) / static_cast<double>(std::max<size_t>(lengths.size(), 1));
  return metrics;
}

MetricValues StalenessMetrics(std::span<const Rollout> rollouts, int64_t step) {
  std::vector<double> stale;
  for (const Rollout& rollout : rollouts) {
    if (rollout.weights_step < 0 || rollout.weights_step >= step) continue;
    stale.push_back(static_cast<double>(step - 1 - rollout.weights_step));
  }
  if (stale.empty()) return {};
  return {{"sampling/staleness/mean", MeanOf(stale)}, {"sampling/staleness/max", *std::ranges::max_element(stale)}};
}

std::vector<int64_t> GroupsWithoutSpread(const RewardTable& table) {
  const std::vector<double> totals = TotalsOf(table);
  const auto size = static_cast<size_t>(table.group);
  std::vector<int64_t> found;
  for (size_t first = 0; first < totals.size(); first += size) {
    const double deviation = DeviationOf({totals.data() + first, size});
    if (!(deviation > kClose)) found.push_back(static_cast<int64_t>(first / size));
  }
  return found;
}

std::string WhyNothingIsLearnt(const RewardTable& table) {
  const std::vector<double> totals = TotalsOf(table);
  if (std::ranges::all_of(totals, [](double total) { return std::isnan(total); })) {
    return Concat("no reward of ", Join(table.names), " was given to any of ", totals.size(), " completions");
  }
  if (ShareWithoutSpread(totals, table.group, /*all=*/false) < 1) return "";
  return Concat(
      "the completions of every prompt have the same reward (mean ", MeanOf(totals), " over ", totals.size(),
      " completions), so that every advantage is 0; rewards that tell completions apart, other prompts, a larger "
      "rl.group or a higher rl.temperature help");
}

}  // namespace trireme
