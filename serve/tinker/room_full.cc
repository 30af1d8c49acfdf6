// Where one model is trained with all its parameters (--train-full): which requests that changes, and which samplers
// have the weights that there are. Samplers of other weights are refused: there is no second set of them to sample
// with.
#include <algorithm>
#include <climits>

#include "core/base/error.h"
#include "serve/fields.h"
#include "serve/tinker/room.h"

namespace trireme::tinker {

// Clients always send a rank, and ask for it when they resume: it is remembered, and has no effect.
TrainedPairs Room::ReadFull(const Json* lora) const {
  TrainedPairs asked;
  if (lora == nullptr) return asked;
  Fields fields(*lora, "lora_config");
  asked.rank = fields.Integer("rank", 1, INT_MAX).value_or(asked.rank);
  fields.Integer("seed", INT64_MIN, INT64_MAX);
  for (const char* part : {"train_attn", "train_mlp", "train_unembed"}) {
    if (!fields.Switch(part).value_or(true))
      fields.Fail(part, "false: this server trains all parameters (--train-full); leave it out");
  }
  fields.Accept({"type"});
  fields.Finish();
  return asked;
}

bool Room::ChangesWeights(const TrainWork& work) const {
  // A new model starts with the weights that there are: those of the last one went with it.
  return facts_.full &&
         (work.action == TrainAction::kStep || work.action == TrainAction::kLoad || work.action == TrainAction::kDrop);
}

bool Room::NeedsIdle() const {
  const std::lock_guard lock(mutex_);
  if (!facts_.full) return false;
  if (LooseComesFirst()) return ChangesWeights(loose_.front().work);
  return std::ranges::any_of(
      Ready(), [&](const Turn& turn) { return ChangesWeights(models_.at(turn.model).queue.next().work); });
}

// The lock is held.
void Room::NoteWeights(const TrainWork& work, const TrainOutcome& outcome) {
  if (!ChangesWeights(work)) return;
  if (!outcome.error.empty()) return versions_.Undo();
  if (work.action == TrainAction::kDrop) versions_.AreBase();
}

// That a checkpoint is of what this server trains.
void Room::CheckKind(const CheckpointRecord& record) const {
  const std::string base = record.facts.value("base_model", facts_.model_name);
  if (base != facts_.model_name)
    Refuse(record.path.Text() + ": was trained from '" + base + "'; this server has '" + facts_.model_name + "'");
  const bool full = record.facts.value("full", false);
  if (full == facts_.full) return;
  Refuse(record.path.Text() +
         (full ? ": is a model that was trained in full; this server trains LoRA adapters: start one with --train-full"
               : ": is a LoRA adapter; this server trains a model in full: start one without --train-full"));
}

// path: of a checkpoint; empty: the weights that the server started with.
void Room::UseWeightsOf(Sampler& sampler, const std::string& path) const {
  if (path.empty() ? !versions_.base() : !versions_.are_of(path)) {
    throw ApiError{.status = 400, .message = (path.empty() ? "base_model: " : path + ": ") + kMovedOn};
  }
  sampler.state = Sampler::State::kOpen;
  sampler.version = versions_.now();
}

}  // namespace trireme::tinker
