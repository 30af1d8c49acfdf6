// PolicySteps: the steps of policy training: which prompts each sampling takes, where its completions come from, which
// update each step makes; writes rollouts.jsonl. The loop calls it step by step; losses and gradients are PolicyPass's.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "train/methods/policy/policy.h"
#include "train/report/appended_file.h"
#include "train/rollouts/sampler_weights.h"
#include "train/states/run_inputs.h"
#include "train/step/batch_sampler.h"

namespace trireme {

class PolicySteps {
 public:
  // `trainer` and `inputs` outlive it. Collective.
  PolicySteps(Trainer& trainer, const RunInputs& inputs);

  Reference* reference() { return pass_.reference(); }
  PpoPass* ppo() { return pass_.ppo(); }
  // Forward and backward of a step, counted from 1, which begins at the start of a sampling; the loss. Collective.
  double Pass(int64_t step);
  // What the last pass reports.
  const MetricValues& metrics() const { return pass_.metrics(); }
  // Whether the next step samples anew: only there a run may be interrupted.
  bool EndsSampling(int64_t step) const { return step % steps_ == 0; }
  double EpochAt(int64_t step) const;
  // The rows of the last pass.
  const RowSource& rows() const { return pass_.rows(); }
  std::vector<int64_t> all_rows() const;

 private:
  std::vector<int64_t> PromptsOf(int64_t sampling);
  void Begin(int64_t step);
  // The completions of the sampling that begins with this step; where the run is one behind, the next one begins.
  std::vector<Rollout> TakeSampling(int64_t step);
  // The prompts' completions; while this program samples them, what only updates need leaves its memory to it.
  std::vector<Rollout> Sample(int64_t step, const std::vector<int64_t>& prompts);
  // Gives the sampler outside the weights as they are, if that is due.
  void ShareWeights(int64_t step);
  std::shared_ptr<RolloutSource> OpenSource(Trainer& trainer, const RunInputs& inputs);
  // Appends the sampling's completions to rollouts.jsonl.
  void Record();

  const Config& config_;
  const int64_t steps_;      // per sampling
  const int64_t samplings_;  // per epoch
  BatchSampler order_;
  Trainer& trainer_;
  const TensorDevice& device_;
  PolicyPass pass_;
  std::shared_ptr<RolloutSource> source_;
  std::unique_ptr<SamplerWeights> weights_;  // with rl.sampler.weights
  const int64_t total_steps_;
  bool prepared_ = false;  // the next sampling has begun
  const std::filesystem::path path_;
  std::optional<AppendedFile> file_;  // on rank 0, from the first sampling on
  const bool records_;
};

}  // namespace trireme
