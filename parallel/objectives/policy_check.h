// The policy losses by name, as plain data, and what the keys of rl must be, checked before anything is read. A new loss is
// a line in the list of policy_check.cc and, where its term is new, a case in policy.cc. No torch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/config.pb.h"

namespace trireme {

enum class PolicyTerm { kClipped, kCispo, kSapo };  // what a token's ratio and advantage become
// What token losses are divided by: a mean over each completion's tokens and then over completions, the tokens of the
// update, completions times the longest one possible, the tokens of the window of updates that share completions, or
// completions.
enum class PolicyMean { kCompletionTokens, kTokens, kLongest, kWindow, kCompletions };
// Whose probabilities make a ratio: each token's, the geometric mean over the completion, or the whole completion's.
enum class RatioOf { kToken, kMean, kCompletion };

struct PolicyLossKind {
  const char* name;
  PolicyTerm term;
  PolicyMean mean;
  std::optional<RatioOf> ratio = {};  // where the loss decides it
};

// Stages that train on completions: grpo, rloo, reinforce_plus_plus, ppo, and gkd.
bool IsPolicy(Stage stage);
// Completions per prompt.
int64_t GroupOf(const Config& config);
// The run's loss, and what its ratios are of; the keys have been checked.
PolicyLossKind PolicyLossOf(const Config& config);
RatioOf RatioOfLoss(const Config& config);
// Whether the KL is part of the loss, and not of the reward.
bool HasKlLoss(const Config& config);
// Optimizer steps between two samplings.
int64_t StepsPerSampling(const RlConfig& rl);
// Prompts of one sampling.
int64_t PromptsPerSampling(const Config& config);
// Whether log-probabilities before the first update with the completions are computed; otherwise the ratio is 1.
bool NeedsOldLogProbs(const Config& config);

// Refuses what does not fit together. Nothing for other stages.
void CheckPolicy(const Config& config);

}  // namespace trireme
