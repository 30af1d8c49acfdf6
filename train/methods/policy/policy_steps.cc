#include "train/methods/policy/policy_steps.h"

#include <chrono>
#include <numeric>
#include <string>
#include <utility>

#include "generation/text/prompts.h"
#include "stages/policy_check.h"
#include "train/methods/distillation/distillation_rollouts.h"
#include "train/plan/sampling_plan.h"
#include "train/rollouts/followed_rollouts.h"
#include "train/rollouts/rollout_file.h"
#include "train/rollouts/rollout_metrics.h"
#include "train/rollouts/sampled_rollouts.h"

namespace trireme {

PolicySteps::PolicySteps(Trainer& trainer, const RunInputs& inputs)
    : config_(inputs.config),
      steps_(StepsPerSampling(config_.rl())),
      samplings_(inputs.data.train->size() / PromptsPerSampling(config_)),
      order_({.rows = inputs.data.train->size(),
              .batch = PromptsPerSampling(config_),
              .shuffle = config_.data().shuffle() && !inputs.replay,
              .seed = static_cast<uint64_t>(config_.run().seed())}),
      trainer_(trainer),
      device_(trainer.session().tensors()),
      pass_(trainer, inputs.start.checkpoint),
      source_(OpenSource(trainer, inputs)),
      weights_(config_.rl().sampler().weights().empty() ? nullptr : std::make_unique<SamplerWeights>(trainer, inputs)),
      total_steps_(inputs.total_steps),
      path_(inputs.start.output / "rollouts.jsonl"),
      records_(trainer.session().job().rank() == 0) {}

std::shared_ptr<RolloutSource> PolicySteps::OpenSource(Trainer& trainer, const RunInputs& inputs) {
  if (inputs.replay) return inputs.replay;
  if (FollowsRollouts(config_)) {
    return std::make_shared<FollowedRollouts>(
        config_,
        RolloutReading{.vocabulary = VocabularyOf(inputs.graph), .ends = EndTokens(config_.model().path(), nullptr)},
        trainer.session().job());
  }
  if (config_.stage() != STAGE_GKD) return std::make_shared<SampledRollouts>(trainer.session(), inputs.sampled);
  return std::make_shared<DistillationRollouts>(trainer.session(), *pass_.reference(), inputs.sampled);
}

// Counted from 0. An epoch's last prompts are left out where they do not fill a sampling.
std::vector<int64_t> PolicySteps::PromptsOf(int64_t sampling) {
  const int64_t epoch = sampling / samplings_;
  return order_.RowsOf(epoch * order_.steps_per_epoch() + sampling % samplings_ + 1);
}

void PolicySteps::ShareWeights(int64_t step) {
  if (weights_) source_->UseWeights(weights_->Share((step - 1) / steps_, step - 1));
}

std::vector<Rollout> PolicySteps::Sample(int64_t step, const std::vector<int64_t>& prompts) {
  if (!Samples(config_)) return source_->Take(step, prompts);
  std::vector<ShardedOptimizer*> optimizers = {&trainer_.optimizer()};
  ValueModel* value_model = pass_.ppo() == nullptr ? nullptr : pass_.ppo()->value_model();
  if (value_model != nullptr) optimizers.push_back(&value_model->trainer().optimizer());
  for (ShardedOptimizer* optimizer : optimizers) optimizer->LendMemory(config_.rl().offload_optimizer());
  std::vector<Rollout> rollouts = source_->Take(step, prompts);
  for (ShardedOptimizer* optimizer : optimizers) optimizer->TakeMemoryBack();
  return rollouts;
}

std::vector<Rollout> PolicySteps::TakeSampling(int64_t step) {
  const int64_t sampling = (step - 1) / steps_, next = step + steps_;
  if (!prepared_) ShareWeights(step);
  std::vector<Rollout> rollouts = Sample(step, PromptsOf(sampling));
  prepared_ = config_.rl().sampler().one_behind() && next <= total_steps_;
  if (!prepared_) return rollouts;
  ShareWeights(step);
  source_->Prepare(next, PromptsOf(sampling + 1));
  return rollouts;
}

void PolicySteps::Begin(int64_t step) {
  std::vector<Rollout> rollouts = TakeSampling(step);
  for (size_t i = 0; i < rollouts.size(); ++i) {
    rollouts[i].step = step;
    rollouts[i].group = static_cast<int64_t>(i) / GroupOf(config_);
  }
  const auto start = std::chrono::steady_clock::now();
  pass_.Begin(std::move(rollouts), source_->names());
  device_.Synchronize();
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  pass_.AddToNext(source_->metrics());
  pass_.AddToNext(StalenessMetrics(pass_.rollouts(), step));
  if (weights_) pass_.AddToNext(weights_->TakeMetrics());
  pass_.AddToNext({{"log_prob_seconds", passed.count()}});
  if (records_ && source_->sampled()) Record();
}

void PolicySteps::Record() {
  if (!file_) file_.emplace(path_);
  std::string lines;
  for (const Rollout& rollout : pass_.rollouts()) lines += ToJsonLine(rollout) + "\n";
  file_->Append(lines);
}

double PolicySteps::Pass(int64_t step) {
  const int64_t past = (step - 1) % steps_;
  if (past == 0) Begin(step);
  return pass_.Pass(static_cast<size_t>(past % config_.rl().steps_per_generation()));
}

double PolicySteps::EpochAt(int64_t step) const {
  return static_cast<double>(step) / static_cast<double>(steps_ * samplings_);
}

std::vector<int64_t> PolicySteps::all_rows() const {
  std::vector<int64_t> all(static_cast<size_t>(pass_.rows().size()));
  std::iota(all.begin(), all.end(), int64_t{0});
  return all;
}

}  // namespace trireme
