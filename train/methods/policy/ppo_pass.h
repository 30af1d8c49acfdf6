// PpoPass: what a policy of stage ppo and its value model, or value head, learn from a sampling: advantages of tokens,
// returns of states. Passes of the policy are PolicyPass's, those of a value model its own.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "train/methods/policy/completion_states.h"
#include "train/methods/policy/value_model.h"
#include "train/report/logged_step.h"

namespace trireme {

class PpoPass {
 public:
  // Opens the value model, unless the policy has values itself. checkpoint: that the run resumes from. `policy`
  // outlives it. Collective.
  PpoPass(Session& policy, const std::optional<std::filesystem::path>& checkpoint);

  // The micro batches of an update, and its completions.
  struct Update {
    std::vector<PassInput>& inputs;
    std::span<Rollout> rollouts;
  };
  // Before the first update with a sampling's completions, when micro batches have log-probabilities of policy and
  // reference, and values that the policy has itself: computes the value model's, then puts advantages and returns into
  // the micro batches, and what they were made of into the completions. scores: the completions' rewards; NaN counts as
  // 0. The sampling's metrics. Collective.
  MetricValues Begin(const std::vector<Update>& updates, const std::vector<double>& scores);

  ValueModel* value_model() { return model_.get(); }  // nullptr: the policy has values itself
  // What the KL counts in the next sampling's rewards; only where it is steered, and part of a checkpoint.
  std::optional<double> kl_coefficient() const;

 private:
  void CollectTokens(const std::vector<Update>& updates, const std::vector<CompletionStates>& states, PpoFacts& facts);
  void PutTargets(const std::vector<Update>& updates, const std::vector<CompletionStates>& states,
                  const PpoFacts& facts, const PpoTargets& targets);
  // By micro batch, of each token; undefined on ranks without the head.
  std::vector<at::Tensor> ValuesOf(const std::vector<PassInput>& inputs);

  Session& policy_;
  std::unique_ptr<ValueModel> model_;
  double kl_coefficient_;
};

}  // namespace trireme
