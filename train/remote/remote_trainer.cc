#include "train/remote/remote_trainer.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/log.h"
#include "train/remote/remote_pass.h"

namespace trireme {
namespace {

constexpr double kAlpha = 32;      // of every model: the scale is alpha / rank
constexpr size_t kMostSaved = 4;

}  // namespace

void PrepareForRemoteTraining(Config& config, int64_t max_rank) {
  const std::pair<const char*, double> added[] = {{"experts.balance_coefficient", config.experts().balance_coefficient()},
                                                  {"experts.z_coefficient", config.experts().z_coefficient()},
                                                  {"loss.label_smoothing", config.loss().label_smoothing()},
                                                  {"loss.z_coefficient", config.loss().z_coefficient()}};
  for (const auto& [key, value] : added) {
    if (value != 0) throw InputError(key, " = ", value, ": remote training computes the clients' losses alone; set it to 0");
  }
  TuningConfig& tuning = *config.mutable_tuning();
  tuning.Clear();
  tuning.set_kind(TUNING_LORA);
  tuning.set_rank(static_cast<int32_t>(max_rank));
  tuning.set_alpha(kAlpha);
  tuning.set_dropout(0);
  tuning.add_targets("all-linear");
  config.mutable_optimizer()->Clear();
  config.mutable_optimizer()->set_name("sgd");  // models bring their own moments: no memory for any here
  config.mutable_optimizer()->set_clip(0);
}

RemoteTrainer::RemoteTrainer(Session& session, Engine& engine, int64_t max_rank)
    : session_(session), engine_(engine), trainer_(session, "log_probs"), layout_(session, max_rank) {}

template <typename Call>
void RemoteTrainer::Agreed(const Call& call) {
  std::string failure;
  try {
    call();
  } catch (const std::exception& error) {
    failure = error.what();
    if (failure.empty()) failure = "failed";
  }
  for (const std::string& other : session_.job().GatherStrings(failure)) {
    if (!other.empty()) throw InputError(other);
  }
}

TrainOutcome RemoteTrainer::Run(const TrainWork& work) {
  TrainOutcome outcome;
  try {
    Do(work, outcome);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput) throw;  // a device or a peer: the job ends
    outcome.error = error.what();
    outcome.users_fault = true;
  }
  return outcome;
}

void RemoteTrainer::Do(const TrainWork& work, TrainOutcome& outcome) {
  switch (work.action) {
    case TrainAction::kCreate:
      return Create(work);
    case TrainAction::kPass:
      return Pass(work, outcome);
    case TrainAction::kStep:
      outcome.grad_norm = Find(work.model).Step(work.adam);
      outcome.step = Find(work.model).step();
      if (in_session_ == work.model) in_session_.clear();
      return;
    case TrainAction::kSave:
      ForgetSaved();  // it may take the place of one of them
      return Agreed([&] { Find(work.model).Save(work.directory, work.optimizer); });
    case TrainAction::kLoad:
      Agreed([&] { Find(work.model).Load(work.directory, work.optimizer); });
      if (in_session_ == work.model) in_session_.clear();
      return;
    case TrainAction::kDrop:
      models_.erase(work.model);
      if (in_session_ == work.model) in_session_.clear();
      return;
    case TrainAction::kOpenSampler:
      outcome.sampler = engine_.AddAdapter(work.directory);
      return;
    case TrainAction::kDropSampler:
      return engine_.DropAdapter(work.sampler);
  }
}

void RemoteTrainer::Create(const TrainWork& work) { models_[work.model] = std::make_unique<RemoteModel>(layout_, work.pairs); }

RemoteModel& RemoteTrainer::Find(const std::string& id) {
  const auto found = models_.find(id);
  if (found == models_.end()) throw InputError("model '", id, "' is gone; create one and load its last checkpoint");
  return *found->second;
}

const std::string& RemoteTrainer::OpenSaved(const std::string& directory) {
  if (!models_.contains(directory)) {
    Agreed([&] {
      auto model = std::make_unique<RemoteModel>(layout_, PairsIn(directory, layout_));
      model->Load(directory, /*optimizer=*/false);
      models_[directory] = std::move(model);
    });
    saved_.push_back(directory);
    if (saved_.size() > kMostSaved) {
      models_.erase(saved_.front());
      saved_.pop_front();
    }
  }
  return models_.find(directory)->first;
}

void RemoteTrainer::ForgetSaved() {
  for (const std::string& directory : saved_) {
    models_.erase(directory);
    if (in_session_ == directory) in_session_.clear();
  }
  saved_.clear();
}

void RemoteTrainer::SwapIn(const std::string& id) {
  if (in_session_ == id) return;
  const Shares values = Find(id).SessionValues();
  ShardedOptimizer& optimizer = trainer_.optimizer();
  optimizer.ForEachShare(
      [&](const ShareState& state) {
        if (state.state != "master") return;
        const auto bucket = std::find(layout_.buckets().begin(), layout_.buckets().end(), state.bucket);
        at::Tensor(state.share).copy_(values[static_cast<size_t>(bucket - layout_.buckets().begin())]);
      },
      /*changes=*/true);
  optimizer.StatesLoaded(0);
  in_session_ = id;
}

// To the host, and the session's are zero again.
Shares RemoteTrainer::TakeGradients() {
  const GradientReport report = trainer_.FinishGradients();
  Shares gradients;
  for (Bucket* bucket : layout_.buckets()) gradients.push_back(bucket->share_gradient().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true));
  trainer_.optimizer().SkipUpdate();
  trainer_.TakeBalance();
  if (!report.finite) throw InputError("the gradient is not finite (", report.source, "); it was not added");
  return gradients;
}

// A loss whose weights depend on the log-probabilities takes two passes: one to know them, one for the gradient.
void RemoteTrainer::Pass(const TrainWork& work, TrainOutcome& outcome) {
  const std::string& id = work.directory.empty() ? work.model : OpenSaved(work.directory);
  if (!work.base) SwapIn(id);
  const LossKind& kind = *FindLoss(work.loss);
  const bool known = kind.name == "cross_entropy";
  RemotePass pass(trainer_, work.rows);
  TokenTable found;
  if (!work.backward || !known) found = pass.LogProbs(/*adapters=*/!work.base);
  TokenTable weights;
  for (size_t i = 0; i < work.rows.size() && !known; ++i) {
    const LossValue value = EvaluateLoss(kind, work.numbers, work.rows[i].inputs, found[i]);
    for (const float weight : value.weights) {
      if (!std::isfinite(weight)) throw InputError("row ", i, ": a ratio of probabilities overflows; are its logprobs of this model?");
    }
    outcome.loss += value.loss;
    weights.emplace_back(value.weights.begin(), value.weights.end());
  }
  for (size_t i = 0; i < work.rows.size() && known; ++i) {
    weights.emplace_back(work.rows[i].inputs.weights.begin(), work.rows[i].inputs.weights.end());
  }
  if (work.backward) {
    const TokenTable again = pass.Backward(weights);
    const Shares gradients = TakeGradients();
    Find(id).AddGradients(gradients);
    if (known) found = again;
  }
  for (size_t i = 0; i < work.rows.size(); ++i) {
    if (known) outcome.loss += EvaluateLoss(kind, work.numbers, work.rows[i].inputs, found[i]).loss;
    outcome.logprobs.emplace_back(found[i].begin(), found[i].end());
  }
}

}  // namespace trireme
