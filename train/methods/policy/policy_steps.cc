#include "train/methods/policy/policy_steps.h"

#include <string>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "stages/policy_check.h"
#include "train/plan/sampling_plan.h"
#include "train/rollouts/followed_rollouts.h"
#include "train/rollouts/rollout_file.h"
#include "train/rollouts/rollout_metrics.h"
#include "train/rollouts/sampled_rollouts.h"
#include "train/rollouts/sampler_exports.h"

namespace trireme {

namespace {

std::shared_ptr<RolloutSource> OpenSampler(const Prompts& prompts, Trainer& trainer, PolicyPass& /*pass*/) {
  Session& session = trainer.session();
  const Config& config = session.config();
  if (!FollowsRollouts(config)) return std::make_shared<SampledRollouts>(session, prompts.sampled);
  return std::make_shared<FollowedRollouts>(config, ReadingFor(config, VocabularyOf(session.graph())), session.job());
}

}  // namespace

std::unique_ptr<Method> MakePolicyMethod(const Config& config) {
  return std::make_unique<PolicySteps>(config, PolicyParts{.source = OpenSampler});
}

DataSets PolicySteps::Open(const DataPlace& place) {
  prompts_ = parts_.open(config_, place);
  return prompts_.data;
}

void PolicySteps::CheckStart(const RunStart& start) const { CheckWeightsDirectory(config_, start.same_run); }

void PolicySteps::Begin(const MethodRun& run) {
  const int64_t prompts = prompts_.data.train->size();
  trainer_ = &run.trainer;
  total_steps_ = run.total_steps;
  steps_ = StepsPerSampling(config_.rl());
  samplings_ = prompts / PromptsPerSampling(config_);
  order_.emplace(BatchSamplerOptions{.rows = prompts,
                                     .batch = PromptsPerSampling(config_),
                                     .shuffle = config_.data().shuffle() && !prompts_.replay,
                                     .seed = static_cast<uint64_t>(config_.run().seed())});
  pass_ = std::make_unique<PolicyPass>(run.trainer, run.start.checkpoint);
  source_ = prompts_.replay ? prompts_.replay : parts_.source(prompts_, run.trainer, *pass_);
  if (prompts_.valid) {
    evaluation_ = std::make_unique<PolicyEvaluation>(run.trainer.session(), prompts_.valid, *source_);
  }
  if (!config_.rl().sampler().weights().empty()) weights_ = std::make_unique<SamplerWeights>(run.trainer);
  path_ = run.start.output / "rollouts.jsonl";
}

bool PolicySteps::wants_start() { return pass_->reference() != nullptr && pass_->reference()->wants_start(); }

ValueModel* PolicySteps::value_model() { return pass_->ppo() == nullptr ? nullptr : pass_->ppo()->value_model(); }

std::vector<SavedModel> PolicySteps::others() {
  std::vector<SavedModel> models = SavedModels(pass_->reference());
  if (ValueModel* values = value_model()) {
    models.push_back({.what = values->what(), .session = &values->session(), .trainer = &values->trainer()});
  }
  return models;
}

// Counted from 0. An epoch's last prompts are left out where they do not fill a sampling.
std::vector<int64_t> PolicySteps::PromptsOf(int64_t sampling) {
  const int64_t epoch = sampling / samplings_;
  return order_->RowsOf(epoch * order_->steps_per_epoch() + sampling % samplings_ + 1);
}

void PolicySteps::ShareWeights(int64_t step) {
  if (weights_) source_->UseWeights(weights_->Share((step - 1) / steps_, step - 1));
}

void PolicySteps::WithLentMemory(const std::function<void()>& sample) {
  std::vector<ShardedOptimizer*> optimizers = {&trainer_->optimizer()};
  if (ValueModel* values = value_model()) optimizers.push_back(&values->trainer().optimizer());
  for (ShardedOptimizer* optimizer : optimizers) optimizer->LendMemory(config_.rl().offload_optimizer());
  sample();
  for (ShardedOptimizer* optimizer : optimizers) optimizer->TakeMemoryBack();
}

std::vector<Rollout> PolicySteps::Sample(int64_t step, const std::vector<int64_t>& prompts) {
  if (!Samples(config_)) return source_->Take(step, prompts);
  std::vector<Rollout> rollouts;
  WithLentMemory([&] { rollouts = source_->Take(step, prompts); });
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

void PolicySteps::BeginSampling(int64_t step) {
  std::vector<Rollout> rollouts = TakeSampling(step);
  for (size_t i = 0; i < rollouts.size(); ++i) {
    rollouts[i].step = step;
    rollouts[i].group = static_cast<int64_t>(i) / GroupOf(config_);
  }
  const auto start = Clock::now();
  pass_->Begin(std::move(rollouts), source_->names());
  trainer_->tensors().Synchronize();
  const double seconds = SecondsSince(start);
  pass_->AddToNext(source_->metrics());
  pass_->AddToNext(StalenessMetrics(pass_->rollouts(), step));
  if (weights_) pass_->AddToNext(weights_->TakeMetrics());
  pass_->AddToNext({{"log_prob_seconds", seconds}});
  if (trainer_->session().job().rank() == 0 && source_->sampled()) Record();
}

void PolicySteps::Record() {
  if (!file_) file_.emplace(path_);
  std::string lines;
  for (const Rollout& rollout : pass_->rollouts()) lines += ToJsonLine(rollout) + "\n";
  file_->Append(lines);
}

void PolicySteps::Pass(int64_t step) {
  KeptFeatures* const kept = trainer_->model().kept_features();
  if (kept != nullptr) kept->TakeUses();  // those of an evaluation
  const int64_t past = (step - 1) % steps_;
  if (past == 0) BeginSampling(step);
  result_ = {.loss = pass_->Pass(static_cast<size_t>(past % config_.rl().steps_per_generation())),
             .epoch = static_cast<double>(step) / static_cast<double>(steps_ * samplings_)};
  if (kept != nullptr) kept_images_ = static_cast<double>(kept->TakeUses());
}

StepResult PolicySteps::Result() {
  result_.metrics = pass_->metrics();
  if (kept_images_) result_.metrics["kept_images"] = *kept_images_;
  result_.rows = &pass_->rows();
  result_.chosen = AllRows(pass_->rows());
  return std::move(result_);
}

void PolicySteps::AfterUpdate(int64_t step) {
  if (Reference* reference = pass_->reference()) reference->Sync(step);
}

Evaluation PolicySteps::Evaluate(int64_t step) {
  Evaluation evaluation;
  WithLentMemory([&] { evaluation = evaluation_->Run(step); });
  return evaluation;
}

void PolicySteps::AddTo(checkpoint::Progress& progress) const {
  const std::optional<double> kl = pass_->ppo() == nullptr ? std::nullopt : pass_->ppo()->kl_coefficient();
  if (kl) progress.set_kl_coefficient(*kl);
}

}  // namespace trireme
