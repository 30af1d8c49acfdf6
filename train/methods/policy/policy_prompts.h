// The prompts of a run that trains on completions, known before any device is touched. No torch.
#pragma once

#include <memory>

#include "core/config.pb.h"
#include "data/dataset.h"
#include "train/rollouts/prompt_set.h"
#include "train/rollouts/rollout_source.h"

namespace trireme {

struct Prompts {
  DataSets data;                                // train: a row per prompt, of which nothing is trained
  std::shared_ptr<RolloutSource> replay;        // rl.rollouts, if it is set
  std::shared_ptr<const PromptSet> sampled;     // otherwise: what completions are sampled for
  std::shared_ptr<const PromptSet> valid = {};  // what evaluations sample completions for, if there are any
};

// Whether the configuration names any.
bool HasPrompts(const Config& config);
// Refuses a configuration without.
void CheckHasPrompts(const Config& config);
// Refuses fewer than a sampling takes.
void CheckCount(const Config& config, const Prompts& prompts);
// The prompts of evaluations, if the run has any. Refuses those that cannot be rewarded.
void OpenValidPrompts(const Config& config, const DataPlace& place, Prompts& prompts);
// All of these, and opens them.
Prompts OpenPrompts(const Config& config, const DataPlace& place);
// Asks the programs of rl.rewards about a prompt and refuses those that will fail; for a run that is only planned.
void ProbeRewards(const Config& config, const Prompts& prompts);

}  // namespace trireme
