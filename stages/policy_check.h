// What the keys of rl must be, checked before anything is read, and what follows from them. The losses themselves are
// in parallel/objectives/policy_losses.h. No torch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/config.pb.h"

namespace trireme {

// Completions per prompt.
int64_t GroupOf(const Config& config);
// Optimizer steps between two samplings.
int64_t StepsPerSampling(const RlConfig& rl);
// Prompts of one sampling.
int64_t PromptsPerSampling(const Config& config);
// Whether the KL is part of the loss, and not of the reward.
bool HasKlLoss(const Config& config);
// Whether log-probabilities before the first update with the completions are computed; otherwise the ratio is 1.
bool NeedsOldLogProbs(const Config& config);

// The directory in model:DIR; nothing for other rewards. A reward model is asked by all ranks
// (train/rollouts/reward_model.h).
std::optional<std::string> RewardModelIn(const std::string& name);

// Refuses what does not fit together. Nothing for other stages.
void CheckPolicy(const Config& config);

}  // namespace trireme
