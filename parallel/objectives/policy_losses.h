// Policy losses by name: what each makes of a token's ratio and advantage, and what it is divided by. A loss is one
// line of the table and, where its term is new, a case in policy.cc. No torch: run rules read the table, too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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

// What a token's loss is multiplied by where another sampler drew it: the ratio of the policy's to the sampler's
// probability, of the token or of the whole completion, bounded, or 0 where it is out of bounds.
enum class SamplerRatio { kNone, kTokenTruncate, kTokenMask, kSequenceTruncate, kSequenceMask };

// What a run says to policy losses; names are those of the keys of rl.
struct PolicyLossOptions {
  std::string loss = "grpo";
  bool sequence_level = false;  // ratios of whole completions where the loss leaves it open
  double beta = 0.04;
  double epsilon = 0.2, epsilon_high = 0.2;
  double delta = 0;  // 0: none
  double temperature = 1;
  int64_t max_new_tokens = 512;
  double entropy_coef = 0;
  double top_entropy_quantile = 1;
  bool bias_correction_kl = true;
  double sapo_temperature_pos = 1, sapo_temperature_neg = 1.05;
  SamplerRatio sampler_correction = SamplerRatio::kNone;
  double sampler_clip_min = 0, sampler_clip_max = 3;

  bool operator==(const PolicyLossOptions&) const = default;
};

// An objective's loss, what its ratios are of, and whether the KL is part of it, and not of the reward.
struct PolicyRules {
  PolicyLossKind loss;
  RatioOf ratio;
  bool kl = false;
};
// By the name of the objective; the keys have been checked.
PolicyRules GrpoRules(const PolicyLossOptions& options);
PolicyRules RlooRules(const PolicyLossOptions& options);
PolicyRules ReinforceRules(const PolicyLossOptions& options);
PolicyRules PpoRules(const PolicyLossOptions& options);

}  // namespace trireme
