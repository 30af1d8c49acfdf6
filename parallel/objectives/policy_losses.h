// Policy losses by name: what each makes of a token's ratio and advantage, and what it is divided by. A loss is one
// line of the table and, where its term is new, a case in policy.cc. No torch: run rules read the table, too.
#pragma once

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

// Null if there is none of that name.
const PolicyLossKind* FindPolicyLoss(const std::string& name);
std::vector<std::string> PolicyLossNames();

// An objective's loss, what its ratios are of, and whether the KL is part of it, and not of the reward.
struct PolicyRules {
  PolicyLossKind loss;
  RatioOf ratio;
  bool kl = false;
};
// By the name of the objective; the keys have been checked.
PolicyRules GrpoRules(const RlConfig& rl);
PolicyRules RlooRules(const RlConfig& rl);
PolicyRules ReinforceRules(const RlConfig& rl);
PolicyRules PpoRules(const RlConfig& rl);

}  // namespace trireme
