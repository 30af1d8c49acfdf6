// What clients may look at: capabilities, training runs, checkpoints, sessions. Each owner sees its own.
#include <algorithm>
#include <cmath>
#include <functional>

#include "serve/fields.h"
#include "serve/tinker/room.h"

namespace trireme::tinker {
namespace {

Json CheckpointJson(const CheckpointRecord& record) {
  const Json expires = record.facts.value("expires", Json());
  return {{"checkpoint_id", record.path.kind + "/" + record.path.name},
          {"checkpoint_type", record.path.kind == kTrainingKind  ? "training"
                              : record.path.kind == kSamplerKind ? "sampler"
                                                                 : "external"},
          {"time", record.facts.value("time", std::string("1970-01-01T00:00:00Z"))},
          {"tinker_path", record.path.Text()},
          {"size_bytes", record.bytes},
          {"public", false},
          {"user_metadata", record.facts.value("user_metadata", Json())},
          {"expires_at", expires.is_null() ? Json() : Json(IsoTime(expires.get<int64_t>()))}};
}

Json Page(const std::string& name, const Json& all, int64_t limit, int64_t offset) {
  Json some = Json::array();
  for (int64_t i = offset; i < std::min<int64_t>(offset + limit, std::ssize(all)); ++i)
    some.push_back(all[static_cast<size_t>(i)]);
  return {{name, some}, {"cursor", {{"offset", offset}, {"limit", limit}, {"total_count", all.size()}}}};
}

}  // namespace

Json Room::Capabilities() const {
  return {{"supported_models",
           {{{"model_name", facts_.model_name},
             {"max_context_length", facts_.limits.context},
             {"trainable", true},
             {"sampleable", door_ != nullptr}}}}};
}

Json Room::WeightsInfo(const std::string& owner, const Json& body) const {
  const std::lock_guard lock(mutex_);  // a save may be about to take the name
  Fields fields(body, "");
  const CheckpointRecord record = checkpoints_.Find(owner, ParsePath(fields.Text("tinker_path").value_or("")));
  // Clients that resume want both of what was trained in full, too: the rank is the one that was asked for.
  return {{"base_model", record.facts.value("base_model", facts_.model_name)},
          {"is_lora", true},
          {"lora_rank", record.facts.value("lora_rank", int64_t{32})},
          {"train_unembed", record.facts.value("full", false)},
          {"train_mlp", record.facts.value("train_mlp", true)},
          {"train_attn", record.facts.value("train_attn", true)}};
}

Json Room::SamplerInfo(const std::string& owner, const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = samplers_.find(id);
  if (found == samplers_.end() || found->second.owner != owner) {
    throw ApiError{.status = 404, .message = "there is no such sampler"};
  }
  Json info = {{"sampler_id", id}, {"base_model", facts_.model_name}};
  if (!found->second.path.empty()) info["model_path"] = found->second.path;
  return info;
}

// From the model in memory, if it is there, and the run's checkpoints.
Json Room::RunOf(const std::string& owner, const std::string& run, const std::vector<CheckpointRecord>& records) const {
  Json json = {{"training_run_id", run},
               {"base_model", facts_.model_name},
               {"model_owner", owner},
               {"is_lora", !facts_.full},
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
    json["lora_rank"] = model->second.pairs.rank;
    json["last_request_time"] = model->second.last_request;
    json["user_metadata"] = model->second.user_metadata;
  }
  return found ? json : Json();
}

Json Room::TrainingRuns(const std::string& owner, int64_t limit, int64_t offset) const {
  const std::lock_guard lock(mutex_);
  const std::vector<CheckpointRecord> records = checkpoints_.All(owner);
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

Json Room::TrainingRun(const std::string& owner, const std::string& run) const {
  const std::lock_guard lock(mutex_);
  Json json = RunOf(owner, run, checkpoints_.All(owner));
  if (json.is_null()) throw ApiError{.status = 404, .message = "there is no such training run"};
  return json;
}

Json Room::CheckpointList(const std::string& owner, const std::string& run, int64_t limit, int64_t offset) const {
  const std::lock_guard lock(mutex_);
  Json all = Json::array();
  for (const CheckpointRecord& record : checkpoints_.All(owner)) {
    if (run.empty() || record.path.run == run) all.push_back(CheckpointJson(record));
  }
  if (run.empty()) std::reverse(all.begin(), all.end());  // of all runs the newest ones first
  return Page("checkpoints", all, limit, offset);
}

Json Room::KeepCheckpoint(const std::string& owner, const std::string& run, const std::string& id,
                          std::optional<int64_t> ttl) {
  const std::lock_guard lock(mutex_);
  const auto expires = ttl ? std::optional(checkpoints_.now() + *ttl) : std::nullopt;
  checkpoints_.SetExpiry(owner, ParsePath("tinker://" + run + "/" + id), expires);
  return Json::object();
}

Json Room::RemoveCheckpoint(const std::string& owner, const std::string& run, const std::string& id) {
  const std::lock_guard lock(mutex_);
  checkpoints_.Remove(owner, ParsePath("tinker://" + run + "/" + id));
  return Json::object();
}

Json Room::Sessions(const std::string& owner, int64_t limit, int64_t offset) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<std::string, std::string>> own;  // when it was created, and its id
  for (const auto& [id, session] : sessions_) {
    if (session.owner == owner) own.emplace_back(session.created, id);
  }
  std::ranges::sort(own, std::greater<>());
  Json ids = Json::array();
  for (const auto& [created, id] : own) ids.push_back(id);
  return Page("sessions", ids, limit, offset);
}

Json Room::Status(const std::optional<std::string>& owner) const {
  const std::lock_guard lock(mutex_);
  const double now = clock_();
  const auto rounded = [](double rate) { return std::round(rate * 10) / 10; };
  Json sessions = Json::array(), models = Json::array();
  int64_t alive = 0;
  for (const auto& [id, session] : sessions_) {
    alive += session.finished ? 0 : 1;
    if (session.finished || (owner && session.owner != *owner)) continue;
    const auto of_this = [&id = id](const auto& entry) { return entry.second.session == id; };
    sessions.push_back({{"session_id", id},
                        {"display_name", session.display_name},
                        {"created", session.created},
                        {"silent_seconds", std::round(now - session.heard)},
                        {"models", std::ranges::count_if(models_, of_this)},
                        {"samplers", std::ranges::count_if(samplers_, of_this)}});
  }
  for (const auto& [id, model] : models_) {
    if (owner && model.owner != *owner) continue;
    models.push_back({{"model_id", id},
                      {"rank", model.pairs.rank},
                      {"queued", model.queue.size()},
                      {"steps", model.steps},
                      {"tokens", model.tokens.total()},
                      {"tokens_per_second", rounded(model.tokens.per_second(now))},
                      {"last_request", model.last_request}});
  }
  return {{"sessions", sessions},
          {"models", models},
          {"totals",
           {{"sessions", alive},
            {"models", models_.size()},
            {"unfinished", futures_.open()},
            {"trained_tokens_per_second", rounded(trained_.per_second(now))},
            {"sampled_tokens_per_second", rounded(sampled_.per_second(now))}}}};
}

Json Room::SessionInfo(const std::string& owner, const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = sessions_.find(id);
  if (found == sessions_.end() || found->second.owner != owner) {
    throw ApiError{.status = 404, .message = "there is no such session"};
  }
  Json runs = Json::array(), samplers = Json::array();
  for (const auto& [name, model] : models_) {
    if (model.session == id) runs.push_back(name);
  }
  for (const auto& [name, sampler] : samplers_) {
    if (sampler.session == id) samplers.push_back(name);
  }
  return {{"training_run_ids", runs},
          {"sampler_ids", samplers},
          {"user_metadata", found->second.user_metadata},
          {"display_name", found->second.display_name.empty() ? Json() : Json(found->second.display_name)}};
}

}  // namespace trireme::tinker
