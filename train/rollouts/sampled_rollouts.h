// SampledRollouts: completions that the trained model itself writes, with its own weights as they are, or that a
// sampler outside writes (rl.sampler.endpoint), and their rewards. Prompts whose completions all have the same reward
// may be exchanged for others (rl.max_resample_times).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "session/session.h"
#include "train/rollouts/completion_sampler.h"
#include "train/rollouts/endpoint_sampler.h"
#include "train/rollouts/reward_set.h"
#include "train/rollouts/rollout_source.h"
#include "train/rollouts/sampling_model.h"

namespace trireme {

class SampledRollouts : public RolloutSource {
 public:
  // `session` outlives it. Opens rl.rewards: models on all ranks, others on rank 0. Collective.
  SampledRollouts(Session& session, std::shared_ptr<const PromptSet> prompts);
  std::vector<Rollout> Take(int64_t step, const std::vector<int64_t>& prompts) override;
  void Prepare(int64_t step, const std::vector<int64_t>& prompts) override;
  void UseWeights(const SharedWeights& weights) override;
  const std::vector<std::string>& names() const override { return rewards_->names(); }
  std::shared_ptr<SamplingModel> model() const override { return model_; }
  std::shared_ptr<const RewardSet> rewards() const override { return rewards_; }
  MetricValues metrics() const override { return metrics_; }

 private:
  std::vector<Rollout> Draw(int64_t step, const std::vector<int64_t>& prompts, int64_t first);
  const MetricValues& DrawMetrics() const { return outside_ ? outside_->metrics() : own_->metrics(); }
  // Draws and rewards. The metrics' seconds grow.
  std::vector<Rollout> Sample(int64_t step, const std::vector<int64_t>& prompts, int64_t first);
  // Exchanges groups whose rewards are all equal for those of other prompts, as often as rl.max_resample_times says.
  void Resample(int64_t step, std::vector<Rollout>& rollouts);

  const Config& config_;
  const std::shared_ptr<const PromptSet> prompts_;
  std::unique_ptr<CompletionSampler> own_;  // one of both
  std::unique_ptr<EndpointSampler> outside_;
  std::shared_ptr<SamplingModel> model_;  // of the own sampler
  std::shared_ptr<RewardSet> rewards_;
  MetricValues metrics_;
};

}  // namespace trireme
