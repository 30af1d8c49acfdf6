// How good the completions of an evaluation are: mean@k, best@n, maj@k and pass@n of a reward, for k completions of
// each prompt, over all prompts and over those of each data source. Numbers only; the same on every rank.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/config.pb.h"
#include "train/report/logged_step.h"
#include "train/rollouts/advantages.h"
#include "train/rollouts/prompt_set.h"
#include "train/rollouts/rollout.h"

namespace trireme {

// The mean, over all subsets of n of the values, of the largest value in the subset: what the best of n completions is
// worth. Of values that are 1 or 0 it is the unbiased estimate of pass@n. n is at most their number.
double MeanBestOf(std::vector<double> values, int64_t n);

// 1, 2, 4, … up to k, and k itself: the n of best@n and pass@n.
std::vector<int64_t> SubsetSizes(int64_t k);

// Completions of an evaluation with all that is known of them, groups of `table.group` side by side.
struct EvaluatedCompletions {
  const RewardTable& table;
  std::span<const Rollout> rollouts;
  std::vector<std::string> sources = {};  // of each prompt; "" where it has none
};

// By the log's names without eval_: reward and rewards/NAME/mean, completions/mean_length and so on, mean@k, pass@n,
// best@n above 1, maj@k where rl.rewards compares answers; source/NAME/… of each data source. What no completion has a
// reward for is left out.
MetricValues CompletionScores(const EvaluatedCompletions& evaluated, const Config& config);

// The data source of each prompt, where eval.by_source asks for it: the column data_source.
std::vector<std::string> SourcesOf(const PromptSet& prompts, const Config& config);
// Refuses eval.reward and eval.metric that an evaluation of these prompts has no number for.
void CheckScoreNames(const PromptSet& prompts, const Config& config);

}  // namespace trireme
