// What a sampling's completions and rewards say, by TRL's names: reward, reward_std, frac_reward_zero_std,
// rewards/NAME/mean and /std, completions/mean_length and so on. Numbers only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "train/report/logged_step.h"
#include "train/rollouts/advantages.h"
#include "train/rollouts/rollout.h"

namespace trireme {

MetricValues RewardMetrics(const RewardTable& table, const Config& config);
MetricValues LengthMetrics(std::span<const Rollout> rollouts);
// sampling/staleness/mean and /max: steps between the weights that sampled and those that the first update changes;
// nothing where that is unknown. `step` is that update, counted from 1.
MetricValues StalenessMetrics(std::span<const Rollout> rollouts, int64_t step);

// The numbers of groups whose completions all have the same reward, and teach nothing.
std::vector<int64_t> GroupsWithoutSpread(const RewardTable& table);

// Why the rewards of a sampling teach nothing, in words for the log; empty where they do.
std::string WhyNothingIsLearnt(const RewardTable& table);

}  // namespace trireme
