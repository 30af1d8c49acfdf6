#include "train/remote/full_trainer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "core/base/error.h"
#include "ops/flat/adamw.h"
#include "parallel/sharding/gradient_norm.h"
#include "train/remote/agreed.h"
#include "train/remote/full_checkpoint.h"
#include "train/remote/remote_pass.h"
#include "train/remote/remote_trainer.h"

namespace trireme {
namespace {

// A bucket's share on this rank.
struct AdamShare {
  Bucket* bucket;
  at::Tensor master, exp_avg, exp_avg_sq;
};

std::vector<AdamShare> AdamSharesOf(ShardedOptimizer& optimizer) {
  std::vector<AdamShare> shares;
  optimizer.ForEachShare([&](const ShareState& state) {
    if (state.state == "master")
      shares.push_back({.bucket = state.bucket, .master = state.share, .exp_avg = {}, .exp_avg_sq = {}});
    if (state.state == "exp_avg") shares.back().exp_avg = state.share;
    if (state.state == "exp_avg_sq") shares.back().exp_avg_sq = state.share;
  });
  return shares;
}

std::vector<Bucket*> TrainedBuckets(Session& session) {
  std::vector<Bucket*> buckets;
  for (Bucket* bucket : session.model().buckets()) {
    if (bucket->trained()) buckets.push_back(bucket);
  }
  return buckets;
}

}  // namespace

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
      if (std::exchange(pending_, false)) trainer_.optimizer().SkipUpdate();
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

// A bucket's gradients are reduced once: those of earlier passes are put aside meanwhile, and added afterwards.
TokenTable FullTrainer::Backward(const TrainWork& work, const TokenTable& weights) {
  ShardedOptimizer& optimizer = trainer_.optimizer();
  const std::vector<Bucket*> buckets = TrainedBuckets(session_);
  std::vector<at::Tensor> before;
  if (pending_) {
    for (const Bucket* bucket : buckets) before.push_back(bucket->share_gradient().clone());
    optimizer.SkipUpdate();
  }
  std::vector<SlotRow> rows;
  for (const TrainRow& row : work.rows) rows.push_back({.row = &row});
  const TokenTable found = RemotePass(trainer_, rows, /*slots=*/0).Backward(weights);
  const GradientReport report = trainer_.FinishGradients();
  trainer_.TakeBalance();
  if (report.finite) {
    norm_ = report.norm;
    for (size_t i = 0; i < before.size(); ++i) at::Tensor(buckets[i]->share_gradient()).add_(before[i]);
    if (pending_) norm_ = MeasuredNorm();
    pending_ = true;
    return found;
  }
  for (size_t i = 0; i < before.size(); ++i) at::Tensor(buckets[i]->share_gradient()).copy_(before[i]);
  if (!pending_) optimizer.SkipUpdate();
  throw InputError("the gradient is not finite (", report.source, "); it was not added");
}

// Each element counts on the rank that owns it; ranks add up in their order, so that all have the same sum.
double FullTrainer::MeasuredNorm() {
  std::vector<Bucket*> counted = TrainedBuckets(session_);
  std::erase_if(counted, [&](const Bucket* bucket) { return trainer_.optimizer().IsTiedCopy(*bucket); });
  const at::Tensor own = GradientNorm(counted).SumOfSquares(session_.tensors().torch());
  char text[64];
  std::snprintf(text, sizeof(text), "%a", own.to(at::kCPU).to(at::kDouble).item<double>());
  double all = 0;
  for (const std::string& of_rank : session_.job().GatherStrings(text)) all += std::strtod(of_rank.c_str(), nullptr);
  return std::sqrt(all);
}

double FullTrainer::Step(const AdamNumbers& adam) {
  if (!pending_) throw InputError("optim_step: there are no gradients since the last one; send forward_backward first");
  ShardedOptimizer& optimizer = trainer_.optimizer();
  pending_ = false;
  if (!std::isfinite(norm_)) {
    optimizer.SkipUpdate();
    throw InputError(
        "optim_step: the gradient's norm is not finite; the gradients were dropped, the weights are unchanged");
  }
  const int64_t step = optimizer.step() + 1;
  const UpdateNumbers numbers{
      .lr = adam.learning_rate,
      .beta1 = adam.beta1,
      .beta2 = adam.beta2,
      .eps = adam.eps,
      .weight_decay = adam.weight_decay,
      .step = step,
      // As torch.nn.utils.clip_grad_norm_ does it.
      .gradient_scale = adam.grad_clip_norm > 0 ? std::min(1.0, adam.grad_clip_norm / (norm_ + 1e-6)) : 1.0};
  for (const AdamShare& share : AdamSharesOf(optimizer)) {
    AdamW({.master = share.master,
           .exp_avg = share.exp_avg,
           .exp_avg_sq = share.exp_avg_sq,
           .gradient = share.bucket->share_gradient().to(share.master.device()),
           .parameter = {}},
          numbers);
  }
  optimizer.SkipUpdate();
  optimizer.StatesLoaded(step);  // the values follow from the masters
  engine_.Forget();
  return norm_;
}

void FullTrainer::KeepInitial() {
  if (!initial_.empty()) return;
  for (const AdamShare& share : AdamSharesOf(trainer_.optimizer()))
    initial_.push_back(share.master.to(at::kCPU, /*non_blocking=*/false, /*copy=*/true));
}

void FullTrainer::Restore() {
  model_.clear();
  ShardedOptimizer& optimizer = trainer_.optimizer();
  if (std::exchange(pending_, false)) optimizer.SkipUpdate();
  const std::vector<AdamShare> shares = AdamSharesOf(optimizer);
  for (size_t i = 0; i < shares.size(); ++i) {
    at::Tensor(shares[i].master).copy_(initial_.at(i));
    at::Tensor(shares[i].exp_avg).zero_();
    at::Tensor(shares[i].exp_avg_sq).zero_();
  }
  optimizer.StatesLoaded(0);
  engine_.Forget();
}

}  // namespace trireme
