#include "train/remote/remote_trainer.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "train/remote/remote_pass.h"
#include "train/remote/work_losses.h"

namespace trireme {
namespace {

constexpr double kAlpha = 32;  // of every model: the scale is alpha / rank
constexpr size_t kMostSaved = 4;

}  // namespace

void RefuseOtherLosses(const Config& config) {
  const std::pair<const char*, double> added[] = {
      {"experts.balance_coefficient", config.experts().balance_coefficient()},
      {"experts.z_coefficient", config.experts().z_coefficient()},
      {"loss.label_smoothing", config.loss().label_smoothing()},
      {"loss.z_coefficient", config.loss().z_coefficient()}};
  for (const auto& [key, value] : added) {
    if (value != 0)
      throw InputError(key, " = ", value, ": remote training computes the clients' losses alone; set it to 0");
  }
  if (config.experts().overflow() != OVERFLOW_KEEP) {
    throw InputError(
        "experts.overflow: which tokens an expert drops would depend on other clients' rows; set it to keep");
  }
}

void PrepareForRemoteTraining(Config& config, const RemoteLimits& limits) {
  RefuseOtherLosses(config);
  TuningConfig& tuning = *config.mutable_tuning();
  tuning.Clear();
  tuning.set_kind(TUNING_LORA);
  tuning.set_rank(static_cast<int32_t>(limits.max_rank * limits.slots));
  tuning.set_alpha(kAlpha);
  tuning.set_dropout(0);
  tuning.add_targets("all-linear");
  config.mutable_optimizer()->Clear();
  config.mutable_optimizer()->set_name("sgd");  // models bring their own moments: no memory for any here
  config.mutable_optimizer()->set_clip(0);
}

RemoteTrainer::RemoteTrainer(Session& session, Engine& engine, const RemoteLimits& limits)
    : session_(session),
      engine_(engine),
      trainer_(session, "log_probs"),
      layout_(session, limits.max_rank, limits.slots),
      idle_(limits.directory, limits.in_memory, session.job().rank()) {}

std::vector<TrainOutcome> RemoteTrainer::Run(const std::vector<TrainWork>& works) {
  std::vector<TrainOutcome> outcomes(works.size());
  std::vector<Passing> passes;
  for (size_t i = 0; i < works.size(); ++i) {
    Guarded(outcomes[i], [&] {
      if (works[i].action != TrainAction::kDrop) Wake(works[i].model);
      if (works[i].action != TrainAction::kPass) return Do(works[i], outcomes[i]);
      const std::string& id = works[i].directory.empty() ? works[i].model : OpenSaved(works[i].directory);
      if (!works[i].base) Find(id);
      passes.push_back({.work = &works[i], .outcome = &outcomes[i], .id = id});
    });
  }
  Pass(std::move(passes));
  Rest(std::ssize(works));
  return outcomes;
}

void RemoteTrainer::Wake(const std::string& id) {
  const auto found = models_.find(id);
  if (found == models_.end()) return;
  if (parked_.contains(id)) Agreed([&] { found->second->Unpark(idle_.FileOf(id)); });
  parked_.erase(id);
  idle_.Use(id);
}

// A file that cannot be written leaves the model where it is.
void RemoteTrainer::Rest(int64_t busy) {
  for (const std::string& id : idle_.TakeSurplus(busy)) {
    if (!std::exchange(said_idle_, true) && session_.job().rank() == 0) {
      TRIREME_LOG(INFO) << "more models are in training than --train-in-memory allows: those that were used longest "
                           "ago wait in files";
    }
    parked_.insert(id);
    try {
      models_.at(id)->Park(idle_.FileOf(id));
    } catch (const std::exception& error) {
      TRIREME_LOG(WARNING) << "remote training: " << id << " stays in memory: " << error.what();
    }
  }
}

void RemoteTrainer::Do(const TrainWork& work, TrainOutcome& outcome) {
  switch (work.action) {
    case TrainAction::kCreate:
      return Create(work);
    case TrainAction::kPass:
      return;
    case TrainAction::kStep:
      outcome.grad_norm = Find(work.model).Step(work.adam);
      outcome.step = Find(work.model).step();
      Changed(work.model);
      return;
    case TrainAction::kSave:
      ForgetSaved();  // it may take the place of one of them
      return Agreed([&] { Find(work.model).Save(work.directory, work.optimizer); });
    case TrainAction::kLoad:
      return Load(work);
    case TrainAction::kDrop:
      models_.erase(work.model);
      idle_.Drop(work.model);
      parked_.erase(work.model);
      Changed(work.model);
      return;
    case TrainAction::kOpenSampler:
      outcome.sampler = engine_.AddAdapter(work.directory);
      return;
    case TrainAction::kDropSampler:
      return engine_.DropAdapter(work.sampler);
  }
}

// A file that one rank cannot read leaves the model as it was on all of them.
void RemoteTrainer::Load(const TrainWork& work) {
  RemoteModel& model = Find(work.model);
  RemoteModel::Loaded loaded;
  Agreed([&] { loaded = model.Read(work.directory, work.optimizer); });
  model.Take(std::move(loaded));
  Changed(work.model);
}

void RemoteTrainer::Create(const TrainWork& work) {
  models_[work.model] = NewModel(work.adapters);
  idle_.Use(work.model);
  Changed(work.model);
}

// In the slot with the fewest models: those of one slot never share a pass.
std::unique_ptr<RemoteModel> RemoteTrainer::NewModel(const TrainedAdapters& adapters) const {
  std::vector<int64_t> used(static_cast<size_t>(layout_.slots()), 0);
  for (const auto& [id, model] : models_) ++used[static_cast<size_t>(model->slot())];
  return std::make_unique<RemoteModel>(layout_, adapters, std::min_element(used.begin(), used.end()) - used.begin());
}

RemoteModel& RemoteTrainer::Find(const std::string& id) {
  const auto found = models_.find(id);
  if (found == models_.end()) throw InputError("model '", id, "' is gone; create one and load its last checkpoint");
  return *found->second;
}

const std::string& RemoteTrainer::OpenSaved(const std::string& directory) {
  if (!models_.contains(directory)) {
    std::unique_ptr<RemoteModel> model;
    Agreed([&] {
      model = NewModel(AdaptersIn(directory, layout_));
      model->Take(model->Read(directory, /*optimizer=*/false));
    });
    models_[directory] = std::move(model);
    saved_.push_back(directory);
    if (saved_.size() > kMostSaved) {
      Changed(saved_.front());
      models_.erase(saved_.front());
      saved_.pop_front();
    }
  }
  return models_.find(directory)->first;
}

void RemoteTrainer::ForgetSaved() {
  for (const std::string& directory : saved_) {
    models_.erase(directory);
    Changed(directory);
  }
  saved_.clear();
}

void RemoteTrainer::SwapIn(const std::vector<Passing>& passing) {
  std::vector<const RemoteModel*> fresh;
  for (const Passing& one : passing) {
    const RemoteModel& model = Find(one.id);
    if (const auto held = in_slot_.find(model.slot()); held != in_slot_.end() && held->second == one.id) continue;
    in_slot_[model.slot()] = one.id;
    fresh.push_back(&model);
  }
  if (fresh.empty()) return;
  std::vector<at::Tensor> values;
  for (const RemoteModel* model : fresh) values.push_back(model->SessionValues());
  ShardedOptimizer& optimizer = trainer_.optimizer();
  optimizer.ForEachShard(
      [&](const ShardState& state) {
        if (state.state != "master") return;
        const auto bucket =
            std::find(layout_.buckets().begin(), layout_.buckets().end(), state.bucket) - layout_.buckets().begin();
        for (size_t i = 0; i < fresh.size(); ++i) {
          for (const AdapterPiece& piece : layout_.pieces(fresh[i]->slot())) {
            if (std::cmp_equal(piece.bucket, bucket)) piece.InShard(state.shard).copy_(piece.In(values[i]));
          }
        }
      },
      /*changes=*/true);
  optimizer.StatesLoaded(0);
}

// To the models, and the session's are zero again.
void RemoteTrainer::TakeGradients(const std::vector<Passing>& passing) {
  const GradientReport report = trainer_.FinishGradients();
  std::vector<at::Tensor> shares;
  for (Bucket* bucket : layout_.buckets()) shares.push_back(bucket->shard_gradient().to(at::kCPU));
  for (const Passing& one : passing) {
    if (!one.outcome->error.empty()) continue;
    RemoteModel& model = Find(one.id);
    Guarded(*one.outcome, [&] {
      if (!report.finite) {  // somebody's is not
        Agreed([&] {
          if (!model.Finite(shares))
            throw InputError("the gradient is not finite (", report.source, "); it was not added");
        });
      }
      model.AddGradients(shares);
    });
  }
  trainer_.optimizer().SkipUpdate();
  trainer_.TakeBalance();
}

// Models of one slot take turns.
void RemoteTrainer::Pass(std::vector<Passing> all) {
  while (!all.empty()) {
    std::vector<Passing> now, later;
    std::set<int64_t> slots;
    for (Passing& one : all) {
      const bool free = one.work->base || slots.insert(Find(one.id).slot()).second;
      (free ? now : later).push_back(std::move(one));
    }
    PassTogether(now);
    all = std::move(later);
  }
}

TokenTable RemoteTrainer::Weigh(const std::vector<Passing>& passing, const TokenTable& found) const {
  TokenTable weights;
  for (const Passing& one : passing) {
    for (std::vector<double>& row : WeighWork(*one.work, found, one.first_row, *one.outcome))
      weights.push_back(std::move(row));
  }
  return weights;
}

// A loss whose weights depend on the log-probabilities takes two passes: one to know them, one for the gradient.
void RemoteTrainer::PassTogether(std::vector<Passing>& passing) {
  const TrainWork& like = *passing.front().work;  // as all of them are
  std::vector<SlotRow> rows;
  for (Passing& one : passing) {
    one.first_row = rows.size();
    for (const TrainRow& row : one.work->rows) rows.push_back({&row, one.work->base ? 0 : Find(one.id).slot()});
  }
  if (!like.base) SwapIn(passing);
  const bool known = like.loss == "cross_entropy";
  const RemotePass pass(trainer_, rows, layout_.slots());
  TokenTable found;
  if (!like.backward || !known) {
    found = pass.LogProbs(/*adapters=*/!like.base);
    const TokenTable weights = Weigh(passing, found);
    if (like.backward) pass.Backward(weights);
  } else {
    TokenTable weights;
    for (const SlotRow& row : rows)
      weights.emplace_back(row.row->inputs.weights.begin(), row.row->inputs.weights.end());
    found = pass.Backward(weights);
    Weigh(passing, found);
  }
  if (like.backward) TakeGradients(passing);
  for (const Passing& one : passing) {
    for (size_t i = 0; i < one.work->rows.size(); ++i) {
      one.outcome->logprobs.emplace_back(found[one.first_row + i].begin(), found[one.first_row + i].end());
    }
  }
}

}  // namespace trireme
