// Generalised advantage estimation (PPO): from the scores of completions, log-probabilities and values to rewards,
// advantages and returns of single tokens. Numbers only; the same on every rank, for all of them know all tokens of a
// sampling.
#pragma once

#include <cstdint>
#include <vector>

#include "core/config.pb.h"

namespace trireme {

// A number for each token of each completion.
using TokenNumbers = std::vector<std::vector<float>>;

// Of the completions of a sampling. A completion of n tokens has n + 1 states, one before each token and one after the
// last, which a policy with a value head of its own leaves out.
struct PpoFacts {
  std::vector<double> scores;  // the completions' rewards
  TokenNumbers old;            // log-probabilities by the policy that drew them: n each
  TokenNumbers reference;      // by the reference: n each; empty: there is none
  TokenNumbers values;         // of the states: n + 1 each, or n
};

// Of the same completions. The state after the last token counts, where it has a value, for completions that are
// shorter than the longest one: there the score is the reward, and the return. Elsewhere it is the reward of the last
// token. The first is TRL 1.12's rule, the second that of TRL 0.9, whose policy has a value head.
struct PpoTargets {
  TokenNumbers rewards;     // of each state that counts
  TokenNumbers returns;     // likewise
  TokenNumbers advantages;  // of each token, whitened over all of them
  double kl = 0;            // of a completion, on average: the sum over its tokens
  double entropy = 0;       // likewise of minus the log-probabilities
};

// kl_coefficient: what the KL counts in rewards.
PpoTargets TargetsOf(const PpoFacts& facts, const RlConfig& rl, double kl_coefficient);

// The KL's weight for the next sampling, after one of `completions` with this KL: steered towards rl.kl_target.
double NextKlCoefficient(double coefficient, double kl, int64_t completions, const RlConfig& rl);

}  // namespace trireme
