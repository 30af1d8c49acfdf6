// PolicySteps: the method that trains on completions: which prompts each sampling takes, where its completions come
// from, which update each step makes; writes rollouts.jsonl. Losses and gradients are PolicyPass's.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "train/methods/method.h"
#include "train/methods/policy/policy.h"
#include "train/methods/policy/policy_evaluation.h"
#include "train/methods/policy/policy_prompts.h"
#include "train/report/appended_file.h"
#include "train/rollouts/sampler_weights.h"
#include "train/step/batch_sampler.h"

namespace trireme {

// What those who train on completions do in their own way.
struct PolicyParts {
  // Before any device is touched.
  Prompts (*open)(const Config& config, const DataPlace& place) = OpenPrompts;
  // Where completions come from, if no file has them. All outlive it.
  std::function<std::shared_ptr<RolloutSource>(const Prompts& prompts, Trainer& trainer, PolicyPass& pass)> source;
};

class PolicySteps : public Method {
 public:
  // `config` outlives it.
  PolicySteps(const Config& config, PolicyParts parts) : config_(config), parts_(std::move(parts)) {}

  DataSets Open(const DataPlace& place) override;
  void CheckStart(const RunStart& start) const override;
  void Begin(const MethodRun& run) override;
  bool wants_start() override;
  void TakeStart() override { pass_->reference()->TakeStart(); }
  std::vector<SavedModel> others() override;
  void Pass(int64_t step) override;
  StepResult Result() override;
  void AfterUpdate(int64_t step) override;
  // Whether the next step samples anew: log-probabilities before the first update of a sampling would be lost.
  bool EndsWindow(int64_t step) const override { return step % steps_ == 0; }
  bool EndsEpoch(int64_t step) override { return step % (steps_ * samplings_) == 0; }
  Evaluation Evaluate(int64_t step) override;
  void AddTo(checkpoint::Progress& progress) const override;

 private:
  std::vector<int64_t> PromptsOf(int64_t sampling);
  void BeginSampling(int64_t step);
  // The completions of the sampling that begins with this step; where the run is one behind, the next one begins.
  std::vector<Rollout> TakeSampling(int64_t step);
  std::vector<Rollout> Sample(int64_t step, const std::vector<int64_t>& prompts);
  // While this program samples, what only updates need leaves its memory to it.
  void WithLentMemory(const std::function<void()>& sample);
  // Gives the sampler outside the weights as they are, if that is due.
  void ShareWeights(int64_t step);
  // Appends the sampling's completions to rollouts.jsonl.
  void Record();

  ValueModel* value_model();

  const Config& config_;
  const PolicyParts parts_;
  Prompts prompts_;
  int64_t steps_ = 1;      // per sampling
  int64_t samplings_ = 1;  // per epoch
  int64_t total_steps_ = 0;
  std::optional<BatchSampler> order_;
  Trainer* trainer_ = nullptr;
  std::unique_ptr<PolicyPass> pass_;
  std::shared_ptr<RolloutSource> source_;
  std::unique_ptr<PolicyEvaluation> evaluation_;  // with evaluations
  std::unique_ptr<SamplerWeights> weights_;       // with rl.sampler.weights
  bool prepared_ = false;                         // the next sampling has begun
  StepResult result_;
  std::optional<double> kept_images_;  // that did without the tower in the last step, where features are kept
  std::filesystem::path path_;
  std::optional<AppendedFile> file_;  // on rank 0, from the first sampling on
};

std::unique_ptr<Method> MakePolicyMethod(const Config& config);

}  // namespace trireme
