// PpoPass: the value model that stage ppo trains beside its policy, and what both learn from a sampling: advantages of tokens
// for the policy, returns of states for the value model. The policy's own passes are PolicyPass's.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "train/completion_states.h"
#include "train/report/logged_step.h"
#include "train/trainer.h"

namespace trireme {

// Its folder in a checkpoint.
inline constexpr char kValueFolder[] = "value_model";

class PpoPass {
 public:
  // Opens the value model with its initial weights, or with all states of the checkpoint that the run resumes from. `policy`
  // outlives it. Collective.
  PpoPass(Session& policy, const std::optional<std::filesystem::path>& checkpoint);

  // The micro batches of an update, and its completions.
  struct Update {
    std::vector<PassInput>& inputs;
    std::span<Rollout> rollouts;
  };
  // Before the first update with a sampling's completions, when micro batches have log-probabilities of policy and reference:
  // computes values, then puts advantages and returns into the micro batches, and what they were made of into the
  // completions. scores: the completions' rewards; NaN counts as 0. The sampling's metrics. Collective.
  MetricValues Begin(const std::vector<Update>& updates, const std::vector<double>& scores);
  // Forward and backward of the value model over an update's micro batches; the loss, without its weight. Collective.
  double Pass(const std::vector<PassInput>& inputs, BatchTotals totals, std::span<const Rollout> rollouts);
  const NamedSums& sums() const { return trainer_.sums(); }  // of the last pass

  Session& session() { return *session_; }
  Trainer& trainer() { return trainer_; }
  // What the KL counts in the next sampling's rewards; only where it is steered, and part of a checkpoint.
  std::optional<double> kl_coefficient() const;

 private:
  void CollectTokens(const std::vector<Update>& updates, const std::vector<CompletionStates>& states, PpoFacts& facts);
  void PutTargets(const std::vector<Update>& updates, const std::vector<CompletionStates>& states, const PpoFacts& facts,
                  const PpoTargets& targets);
  // By micro batch, of each token; nothing is differentiated.
  std::vector<PassOutput> ValuesOf(const std::vector<PassInput>& inputs);

  Session& policy_;
  const std::unique_ptr<Session> session_;
  Trainer trainer_;
  double kl_coefficient_;
};

}  // namespace trireme
