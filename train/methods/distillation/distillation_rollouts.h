// DistillationRollouts: the answers that a student is taught with: the data's, its own (distillation.lambda), or its
// teacher's (distillation.seq_kd). Whose they are is drawn for each step from run.seed, the same on every rank.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "train/rollouts/completion_sampler.h"
#include "train/rollouts/rollout_source.h"
#include "train/step/reference.h"

namespace trireme {

class DistillationRollouts : public RolloutSource {
 public:
  // All outlive it. prompts: with answers.
  DistillationRollouts(Session& student, Reference& teacher, std::shared_ptr<const PromptSet> prompts);
  std::vector<Rollout> Take(int64_t step, const std::vector<int64_t>& prompts) override;
  const std::vector<std::string>& names() const override { return names_; }
  MetricValues metrics() const override { return metrics_; }
  bool sampled() const override { return sampled_; }

 private:
  std::vector<Rollout> Given(const std::vector<int64_t>& prompts) const;

  Session& student_;
  Reference& teacher_;
  const Config& config_;
  CompletionSampler sampler_;
  const std::vector<std::string> names_;  // there are no rewards
  MetricValues metrics_;
  bool sampled_ = false;
};

}  // namespace trireme
