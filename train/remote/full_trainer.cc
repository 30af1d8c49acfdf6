#include "train/remote/full_trainer.h"

#include <ATen/ATen.h>

#include <cmath>

#include "core/base/error.h"
#include "train/remote/agreed.h"
#include "train/remote/full_checkpoint.h"
#include "train/remote/remote_pass.h"
#include "train/remote/remote_trainer.h"

namespace trireme {
void PrepareForFullTraining(Config& config) {
  RefuseOtherLosses(config);
  config.mutable_tuning()->Clear();
  config.mutable_tuning()->set_kind(TUNING_FULL);
  config.mutable_optimizer()->Clear();
  config.mutable_optimizer()->set_name("adamw");  // the numbers come with each step
  config.mutable_optimizer()->set_clip(0);
}

FullTrainer::FullTrainer(Session& session, Engine& engine)
    : session_(session), engine_(engine), trainer_(session, "log_probs") {}

std::vector<TrainOutcome> FullTrainer::Run(const std::vector<TrainWork>& works) {
  std::vector<TrainOutcome> outcomes(works.size());
  for (size_t i = 0; i < works.size(); ++i) {
    GuardInto(outcomes[i], [&] { Do(works[i], outcomes[i]); });
  }
  return outcomes;
}

void FullTrainer::CheckModel(const std::string& id) const {
  if (id != model_) throw InputError("model '", id, "' is gone; create one and load its last checkpoint");
}

void FullTrainer::Do(const TrainWork& work, TrainOutcome& outcome) {
  switch (work.action) {
    case TrainAction::kCreate:
      KeepInitial();
      model_ = work.model;
      return;
    case TrainAction::kPass:
      return Pass(work, outcome);
    case TrainAction::kStep:
      CheckModel(work.model);
      outcome.grad_norm = Step(work.adam);
      outcome.step = trainer_.optimizer().step();
      return;
    case TrainAction::kSave:
      CheckModel(work.model);
      if (!work.directory.empty()) SaveFullModel(trainer_, work.directory, work.optimizer);
      return;
    case TrainAction::kLoad:
      CheckModel(work.model);
      LoadFullModel(trainer_, work.directory, work.optimizer);
      DropGradients();
      return engine_.Forget();
    case TrainAction::kDrop:
      if (work.model == model_) Restore();
      return;
    case TrainAction::kOpenSampler:
    case TrainAction::kDropSampler:
      throw InputError("this server trains one model in full and samples with it; it has no adapters");
  }
}

// A sampler's pass names no model: the weights are those that there are.
void FullTrainer::Pass(const TrainWork& work, TrainOutcome& outcome) {
  if (!work.model.empty()) CheckModel(work.model);
  TokenTable found;
  if (work.backward && work.loss == "cross_entropy") {
    TokenTable weights;
    for (const TrainRow& row : work.rows) weights.emplace_back(row.inputs.weights.begin(), row.inputs.weights.end());
    found = Backward(work, weights);
    WeighWork(work, found, 0, outcome);
  } else {
    std::vector<SlotRow> rows;
    for (const TrainRow& row : work.rows) rows.push_back({.row = &row});
    found = RemotePass(trainer_, rows, /*slots=*/0).LogProbs(/*adapters=*/false);
    const TokenTable weights = WeighWork(work, found, 0, outcome);
    if (!outcome.error.empty()) return;
    if (work.backward) Backward(work, weights);
  }
  for (const std::vector<double>& row : found) outcome.logprobs.emplace_back(row.begin(), row.end());
}

TokenTable FullTrainer::Backward(const TrainWork& work, const TokenTable& weights) {
  ShardedOptimizer& optimizer = trainer_.optimizer();
  if (optimizer.has_gradients()) optimizer.KeepGradients();
  std::vector<SlotRow> rows;
  for (const TrainRow& row : work.rows) rows.push_back({.row = &row});
  const TokenTable found = RemotePass(trainer_, rows, /*slots=*/0).Backward(weights);
  const GradientReport report = trainer_.FinishGradients();
  trainer_.TakeBalance();
  if (report.finite) return found;
  optimizer.DropPass();
  throw InputError("the gradient is not finite (", report.source, "); it was not added");
}

double FullTrainer::Step(const AdamNumbers& adam) {
  ShardedOptimizer& optimizer = trainer_.optimizer();
  if (!optimizer.has_gradients())
    throw InputError("optim_step: there are no gradients since the last one; send forward_backward first");
  const double norm = optimizer.report().norm;
  if (!std::isfinite(norm)) {
    optimizer.SkipUpdate();
    throw InputError(
        "optim_step: the gradient's norm is not finite; the gradients were dropped, the weights are unchanged");
  }
  optimizer.Update({.learning_rate = adam.learning_rate,
                    .beta1 = adam.beta1,
                    .beta2 = adam.beta2,
                    .eps = adam.eps,
                    .weight_decay = adam.weight_decay,
                    .clip = adam.grad_clip_norm,
                    .decay_all = true});  // as torch.optim.AdamW does it
  engine_.Forget();
  return norm;
}

void FullTrainer::DropGradients() {
  if (trainer_.optimizer().has_gradients()) trainer_.optimizer().SkipUpdate();
}

void FullTrainer::KeepInitial() {
  if (!initial_.empty()) return;
  trainer_.optimizer().ForEachShard([&](const ShardState& state) {
    if (state.state == "master") initial_.push_back(state.shard.to(at::kCPU, /*non_blocking=*/false, /*copy=*/true));
  });
}

void FullTrainer::Restore() {
  model_.clear();
  DropGradients();
  size_t next = 0;
  trainer_.optimizer().ForEachShard(
      [&](const ShardState& state) {
        const at::Tensor shard = state.shard;
        state.state == "master" ? shard.copy_(initial_.at(next++)) : shard.zero_();
      },
      /*changes=*/true);
  trainer_.optimizer().StatesLoaded(0);
  engine_.Forget();
}

}  // namespace trireme
