// Models and training runs. Requests that wait their turn are in training_requests.cc.
#include "serve/tinker/training_models.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "serve/fields.h"
#include "serve/tinker/checkpoint_requests.h"
#include "serve/tinker/pages.h"
#include "serve/tinker/request_fields.h"
#include "serve/tinker/user_fields.h"

namespace trireme::tinker {
namespace {

Json FutureBody(const std::string& future, const std::string& model) {
  return {{"request_id", future}, {"model_id", model}};
}

}  // namespace

TrainingModels::TrainingModels(RemoteState& state, Sessions& sessions, Samplers& samplers)
    : state_(state), sessions_(sessions), samplers_(samplers) {
  sessions_.WhenEnded(
      [this](const Held& held, const std::string& session, const std::string& why) { EndSession(held, session, why); });
}

TrainingModel& TrainingModels::Find(const std::string& owner, const std::string& id) {
  const auto found = models_.find(id);
  if (found != models_.end() && found->second.owner == owner) return found->second;
  throw ApiError{.status = 404,
                 .message = "model_id '" + id.substr(0, 120) +
                            "': there is no such model; models end with their session and "
                            "with the server: create one and load its last checkpoint"};
}

void TrainingModels::RefuseAnother(const std::string& owner) const {
  if (state_.facts.full && !models_.empty()) {
    throw ApiError{
        .status = 400,
        .message =
            "this server trains one model, in full (--train-full), and one is in training; end its session first"};
  }
  if (std::ssize(models_) >= state_.facts.max_models) {
    throw ApiError{.status = 400,
                   .message = Concat("this server trains ", state_.facts.max_models,
                                     " models at once; end another session first")};
  }
  const auto own = std::ranges::count_if(models_, [&](const auto& entry) { return entry.second.owner == owner; });
  if (state_.facts.quota.models > 0 && own >= state_.facts.quota.models) {
    throw ApiError{.status = 400,
                   .message = Concat("this key may train ", state_.facts.quota.models,
                                     " models at once; end another session first")};
  }
}

Json TrainingModels::Create(const std::string& owner, const Json& body) {
  const Held held(state_.mutex);
  state_.RefuseIfClosed(held);
  const RemoteFacts& facts = state_.facts;
  Fields fields(body, "");
  const std::string session = IdOf(fields, "session_id");
  const int64_t seq = SeqOf(fields, "model_seq_id");
  sessions_.Hear(held, owner, session);
  const std::string id = Concat(session, ":train:", seq);
  if (const auto known = created_[session].find(seq); known != created_[session].end()) {
    return FutureBody(known->second, id);
  }
  const std::string base = fields.Text("base_model").value_or("");
  if (base != facts.model_name) {
    throw ApiError{
        .status = 400,
        .message = "base_model '" + base.substr(0, 120) + "' is not served here; wanted '" + facts.model_name + "'"};
  }
  RefuseAnother(owner);
  CheckOptimizer(fields.Find("optimizer_config"));
  TrainingModel model{.owner = owner, .session = session};
  const Json* lora = fields.Find("lora_config");
  model.adapters = facts.full ? ReadFull(lora) : ReadAdapters(lora, facts.max_rank);
  model.user_metadata = UserMetadata(fields);
  fields.Accept({"type"});
  fields.Finish();
  model.last_request = IsoTime();
  Task task{.future = state_.futures.Add(owner),
            .work = {.action = TrainAction::kCreate, .model = id, .adapters = model.adapters},
            .finish = [id](const Held&, const TrainOutcome&) {
              return Success({{"model_id", id}, {"type", "create_model"}});
            }};
  const std::string future = created_[session][seq] = task.future;
  model.queue.Add(0, std::move(task), state_.clock());  // clients count their requests from 1
  models_[id] = std::move(model);
  state_.wake();
  return FutureBody(future, id);
}

Json TrainingModels::Unload(const std::string& owner, const Json& body) {
  const Held held(state_.mutex);
  Fields fields(body, "");
  const std::string id = IdOf(fields, "model_id");
  Find(owner, id);
  Drop(held, id, "the model was unloaded");
  const std::string future = state_.futures.Add(owner);
  state_.Finish(held, future, Success({{"model_id", id}, {"type", "unload_model"}}));
  return FutureBody(future, id);
}

Json TrainingModels::Info(const std::string& owner, const Json& body) {
  const Held held(state_.mutex);
  const RemoteFacts& facts = state_.facts;
  Fields fields(body, "");
  const std::string id = IdOf(fields, "model_id");
  const TrainingModel& model = Find(owner, id);
  return {{"type", "get_info"},
          {"model_data", {{"model_name", facts.model_name}, {"tokenizer_id", facts.model_directory}}},
          {"model_id", id},
          {"is_lora", !facts.full},
          {"lora_rank", facts.full ? Json() : Json(model.adapters.rank)},
          {"model_name", facts.model_name}};
}

// Its adapters go in the order of loose work; nothing of it is found meanwhile.
void TrainingModels::Drop(const Held& held, const std::string& id, const std::string& why) {
  expected_.Forget(id);
  state_.FailAll(held, models_.at(id).queue.TakeAll(), why);
  models_.erase(id);
  state_.AddLoose(held, {.work = {.action = TrainAction::kDrop, .model = id}});
}

void TrainingModels::EndSession(const Held& held, const std::string& session, const std::string& why) {
  std::vector<std::string> ids;
  for (const auto& [id, model] : models_) {
    if (model.session == session) ids.push_back(id);
  }
  for (const std::string& id : ids) Drop(held, id, why);
  created_.erase(session);
}

void TrainingModels::NoteDone(const Held& /*held*/, const TrainWork& work, const TrainOutcome& outcome,
                              double seconds) {
  const double now = state_.clock();
  tokens_.Add(work.tokens(), now);
  const auto found = models_.find(work.model);
  if (found == models_.end()) return;
  TrainingModel& model = found->second;
  model.tokens.Add(work.tokens(), now);
  if (work.action == TrainAction::kStep && outcome.error.empty()) model.steps = outcome.step;
  if (work.action == TrainAction::kPass) expected_.PassTook(seconds);
  if (model.queue.size() == 0) expected_.Answered(work.model, now);
}

double TrainingModels::tokens_per_second(const Held& /*held*/) const { return tokens_.per_second(state_.clock()); }

void TrainingModels::Tick(const Held& held) {
  for (auto& [id, model] : models_) {
    state_.FailAll(held, model.queue.TakeStuck(state_.clock(), state_.facts.gap_seconds),
                   "an earlier request of this model never arrived (its seq_id is missing)");
  }
}

// From the model in memory, if it is there, and the run's checkpoints.
Json TrainingModels::RunOf(const std::string& owner, const std::string& run,
                           const std::vector<CheckpointRecord>& records) const {
  Json json = {{"training_run_id", run},
               {"base_model", state_.facts.model_name},
               {"model_owner", owner},
               {"is_lora", !state_.facts.full},
               {"corrupted", false},
               {"last_checkpoint", nullptr},
               {"last_sampler_checkpoint", nullptr}};
  bool found = false;
  for (const CheckpointRecord& record : records) {
    if (record.path.run != run) continue;
    found = true;
    json["lora_rank"] = record.facts.value("lora_rank", int64_t{32});
    json["last_request_time"] = record.facts.value("time", std::string());
    json["user_metadata"] = record.facts.value("user_metadata", Json());
    if (record.path.kind == kTrainingKind) json["last_checkpoint"] = CheckpointJson(record);
    if (record.path.kind == kSamplerKind) json["last_sampler_checkpoint"] = CheckpointJson(record);
  }
  if (const auto model = models_.find(run); model != models_.end() && model->second.owner == owner) {
    found = true;
    json["lora_rank"] = model->second.adapters.rank;
    json["last_request_time"] = model->second.last_request;
    json["user_metadata"] = model->second.user_metadata;
  }
  return found ? json : Json();
}

Json TrainingModels::Runs(const std::string& owner, int64_t limit, int64_t offset) const {
  const Held held(state_.mutex);
  const std::vector<CheckpointRecord> records = state_.checkpoints.All(owner);
  std::vector<std::string> runs;
  for (const CheckpointRecord& record : records) runs.push_back(record.path.run);
  for (const auto& [id, model] : models_) {
    if (model.owner == owner) runs.push_back(id);
  }
  std::ranges::sort(runs);
  const auto twice = std::ranges::unique(runs);
  runs.erase(twice.begin(), twice.end());
  Json all = Json::array();
  for (const std::string& run : runs) all.push_back(RunOf(owner, run, records));
  return Page("training_runs", all, limit, offset);
}

Json TrainingModels::Run(const std::string& owner, const std::string& run) const {
  const Held held(state_.mutex);
  Json json = RunOf(owner, run, state_.checkpoints.All(owner));
  if (json.is_null()) throw ApiError{.status = 404, .message = "there is no such training run"};
  return json;
}

}  // namespace trireme::tinker
