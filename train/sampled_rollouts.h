// SampledRollouts: completions that the trained model itself writes, with its own weights as they are, and their rewards.
// Prompts whose completions all have the same reward may be exchanged for others (rl.max_resample_times).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "session/session.h"
#include "train/completion_sampler.h"
#include "train/reward_model.h"
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
  // Draws and rewards. The metrics' seconds grow.
  std::vector<Rollout> Sample(int64_t step, const std::vector<int64_t>& prompts, int64_t first);
  void Judge(std::vector<Rollout>& rollouts, const std::vector<int64_t>& prompts);
  // Exchanges groups whose rewards are all equal for those of other prompts, as often as rl.max_resample_times says.
  void Resample(int64_t step, std::vector<Rollout>& rollouts);

  Session& session_;
  const Config& config_;
  CompletionSampler sampler_;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<Reward>> rewards_;       // on rank 0; null where all ranks ask a model
  std::vector<std::unique_ptr<RewardModel>> models_;  // null where rank 0 asks
  MetricValues metrics_;
};

}  // namespace trireme
