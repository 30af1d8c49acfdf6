// Rewards into advantages: weighted sums, compared within each group. Numbers only; the same on every rank, for all of
// them know all rewards of a sampling.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/config.pb.h"

namespace trireme {

// Of the completions of a sampling, groups of `group` side by side.
struct RewardTable {
  std::vector<std::string> names;
  std::vector<double> weights;               // of each name
  std::vector<std::vector<double>> rewards;  // by name, then completion; NaN: none was given
  int64_t group = 1;
};

// The weighted sum of each completion's rewards; NaN where none was given at all.
std::vector<double> TotalsOf(const RewardTable& table);

// Of each completion, by the stage's rule; 0 for completions without a reward. `totals` may have lost a penalty.
// grpo: minus the group's mean, over rl.scale_rewards' deviation; rloo: minus the mean of the others;
// reinforce_plus_plus: minus the group's mean, over the deviation of these differences.
std::vector<double> AdvantagesOf(const std::vector<double>& totals, int64_t group, const Config& config);

// Of those that are numbers; NaN if there are none, or for the deviation fewer than two.
double MeanOf(std::span<const double> values);
double DeviationOf(std::span<const double> values);  // unbiased

}  // namespace trireme
