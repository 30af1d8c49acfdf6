#include "train/step/reference.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>

#include "core/base/error.h"
#include "parallel/objectives/answer_objective.h"
#include "parallel/pass/pass_batch.h"
#include "stages/preference_check.h"

namespace trireme {
namespace {

std::vector<Bucket*> TrainedBuckets(Session& session) {
  std::vector<Bucket*> trained;
  for (Bucket* bucket : session.model().buckets()) {
    if (bucket->trained()) trained.push_back(bucket);
  }
  return trained;
}

void PutValues(Bucket& bucket, const at::Tensor& values) {
  const at::Tensor place = bucket.BeginValues();
  (place.defined() ? place : bucket.shard_master()).copy_(values);
  bucket.EndValues();
}

// Its teacher, or its reference.
std::optional<OtherModel> SecondModelOf(const Config& config) {
  std::optional<OtherModel> teacher = OtherModelOf(config, ModelRole::kTeacher);
  return teacher ? teacher : OtherModelOf(config, ModelRole::kReference);
}

}  // namespace

bool SpeaksForRows(const Session& session) { return session.Coordinate("tp") == 0 && session.Coordinate("cp") == 0; }

std::vector<std::vector<double>> AnswerLogProbsOf(Session& session, const std::vector<PassInput>& inputs,
                                                  bool adapters) {
  const AnswerLogProbs objective;
  PassBatch batch(
      inputs,
      {.objective = &objective, .differentiate = false, .adapters = adapters, .wants = {.sequence_log_probs = true}});
  session.RunForward(batch);
  std::vector<std::vector<double>> found(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor& sums = batch.result().outputs[i].sequence_log_probs;
    if (!sums.defined()) continue;
    const at::Tensor host = sums.to(at::kCPU).contiguous();
    found[i].assign(host.data_ptr<float>(), host.data_ptr<float>() + host.numel());
  }
  return found;
}

Reference::Reference(Session& session, const std::optional<std::filesystem::path>& checkpoint)
    : session_(session), second_(SecondModelOf(session.config())) {
  const Config& config = session.config();
  if (!second_) {
    const std::string& name = config.reference();
    adapters_ = name == "start";
    const bool whole = config.tuning().modules_to_save_size() > 0;
    if (whole && name == "base" && !config.tuning().adapters().empty()) {
      throw InputError("reference: base: ", config.tuning().adapters(),
                       " brings modules of its own (modules_to_save), ",
                       "so that the base model's are not in memory; write reference: ", config.model().path());
    }
    starts_ = whole || (name == "start" && !config.tuning().adapters().empty());
    if (name == "start" && !starts_) adapters_ = false;  // a fresh adapter adds nothing
    return;
  }
  frozen_ = session.OpenOther(*second_);
  follows_ = !second_->saved_as.empty();
  if (follows_ && checkpoint) {
    frozen_->LoadWeights((*checkpoint / second_->saved_as).string());
  } else if (ComparesWithItself(config) && config.model().init() == MODEL_INIT_RANDOM) {
    frozen_->DrawWeights(static_cast<uint64_t>(config.run().seed()));
  } else {
    frozen_->TakeWeights();
  }
  for (Bucket* bucket : frozen_->model().buckets()) {
    if (second_->offload) bucket->OffloadValues();
  }
}

void Reference::TakeStart() {
  if (!starts_) return;
  for (Bucket* bucket : TrainedBuckets(session_)) elsewhere_.push_back(bucket->shard_values().clone());
}

void Reference::Exchange() {
  const std::vector<Bucket*> buckets = TrainedBuckets(session_);
  TRIREME_CHECK(buckets.size() == elsewhere_.size()) << "the starting values were not taken";
  for (size_t i = 0; i < buckets.size(); ++i) {
    const at::Tensor here = buckets[i]->shard_values().clone();
    PutValues(*buckets[i], elsewhere_[i]);
    elsewhere_[i] = here;
  }
}

void Reference::Sync(int64_t step) {
  const ReferenceSyncConfig& sync = session_.config().reference_sync();
  if (!follows_ || step % sync.steps() != 0) return;
  const std::vector<Bucket*> mine = frozen_->model().buckets(), theirs = session_.model().buckets();
  TRIREME_CHECK(mine.size() == theirs.size()) << mine.size() << " buckets follow " << theirs.size();
  for (size_t i = 0; i < mine.size(); ++i) mine[i]->MixValues(*theirs[i], sync.alpha());
}

void Reference::Use(const std::function<void(Session& model, bool adapters)>& use) {
  if (frozen_) {
    const std::vector<Bucket*> buckets = frozen_->model().buckets();
    if (second_->offload) std::ranges::for_each(buckets, [](Bucket* bucket) { bucket->ReloadValues(); });
    use(*frozen_, /*adapters=*/true);
    if (second_->offload) std::ranges::for_each(buckets, [](Bucket* bucket) { bucket->OffloadValues(); });
    return;
  }
  if (starts_) Exchange();
  use(session_, adapters_);
  if (starts_) Exchange();
}

std::vector<std::vector<double>> Reference::LogProbsOf(const std::vector<PassInput>& inputs) {
  std::vector<std::vector<double>> found;
  Use([&](Session& model, bool adapters) { found = AnswerLogProbsOf(model, inputs, adapters); });
  return found;
}

}  // namespace trireme
