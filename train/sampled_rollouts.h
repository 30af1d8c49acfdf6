// SampledRollouts: completions that the trained model itself writes, with its own weights as they are, and their rewards.
// The completions of a group share their prompt's keys and values; a completion that ends makes room for another. What is
// drawn depends on run.seed, the step, the prompt and the completion's number alone.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "generation/engine.h"
#include "session/session.h"
#include "train/reward_model.h"
#include "train/rollouts/prompt_set.h"
#include "train/rollouts/rewards.h"
#include "train/rollouts/rollout_source.h"

namespace trireme {

class SampledRollouts : public RolloutSource {
 public:
  // `session` outlives it. Opens rl.rewards: models on all ranks, others on rank 0. Collective.
  SampledRollouts(Session& session, std::shared_ptr<const PromptSet> prompts);
  std::vector<Rollout> Take(int64_t step, const std::vector<int64_t>& prompts) override;
  const std::vector<std::string>& names() const override { return names_; }
  MetricValues metrics() const override { return metrics_; }

 private:
  std::vector<Rollout> Draw(int64_t step, const std::vector<int64_t>& prompts);
  // Takes a row's next token; whether it continues.
  bool Continue(Rollout& rollout, const NewToken& token) const;
  void Judge(std::vector<Rollout>& rollouts, const std::vector<int64_t>& prompts);

  Session& session_;
  const Config& config_;
  const std::shared_ptr<const PromptSet> prompts_;
  const std::set<int64_t> ends_;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<Reward>> rewards_;       // on rank 0; null where all ranks ask a model
  std::vector<std::unique_ptr<RewardModel>> models_;  // null where rank 0 asks
  MetricValues metrics_;
};

}  // namespace trireme
