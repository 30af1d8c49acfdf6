// The losses of pairs: for each its value and its derivatives by the two answers' log-probabilities. Plain numbers, one
// pair at a time; knows neither tensors nor batches. A new loss is a function and a line in its list (pair_losses.cc).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trireme {

// What a loss sees of a pair. Log-probabilities are sums over the answer's tokens.
struct PairScores {
  double chosen = 0, rejected = 0;                      // of the policy
  double reference_chosen = 0, reference_rejected = 0;  // 0 where there is no reference
  int64_t chosen_tokens = 1, rejected_tokens = 1;
  // Over the whole batch, both sorted: what stands at this pair's place, for aot and aot_unpaired.
  double rival = 0;                             // of the reference's differences
  double chosen_rival = 0, rejected_rival = 0;  // the rejected log-ratio at the chosen one's place, and the reverse

  double chosen_ratio() const { return chosen - reference_chosen; }
  double rejected_ratio() const { return rejected - reference_rejected; }
};

// What log-ratios are measured by.
enum class PairDivergence { kReverseKl, kForwardKl, kJs, kAlpha };

struct PairLossOptions {
  double beta = 0.1;
  double label_smoothing = 0;
  PairDivergence divergence = PairDivergence::kReverseKl;
  double divergence_alpha = 0.5;
  double discopop_tau = 0.05;
  double simpo_gamma = 0.5;

  bool operator==(const PairLossOptions&) const = default;
};

struct PairGradient {
  double value = 0;
  double chosen = 0, rejected = 0;  // derivatives by the policy's log-probabilities
};

using PairLossFunction = PairGradient (*)(const PairScores& pair, const PairLossOptions& how);

struct PairLoss {
  const char* name;
  PairLossFunction function;
  bool diverges = false;  // takes another divergence than reverse_kl
  bool sorts = false;     // compares answers over the whole batch
  bool means = false;     // by log-probabilities per token
};

// TRL's, less `sft`, which is a mean over tokens and no function of pairs.
std::span<const PairLoss> DpoLosses();
// Without a reference: sigmoid, hinge, ipo, simpo.
std::span<const PairLoss> CpoLosses();
std::vector<std::string> NamesOf(std::span<const PairLoss> losses);

// ORPO's: minus beta times the log of the odds ratio's sigmoid. Log-probabilities count per token.
struct OddsRatio {
  PairGradient loss;
  double log_odds = 0;   // of the chosen answer against the rejected one
  double log_ratio = 0;  // the log of its sigmoid
};
OddsRatio OddsRatioLoss(const PairScores& pair, double beta);

// log σ(x), and σ(x).
double LogSigmoid(double x);
double Sigmoid(double x);

}  // namespace trireme
