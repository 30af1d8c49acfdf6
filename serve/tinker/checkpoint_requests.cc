#include "serve/tinker/checkpoint_requests.h"

#include <algorithm>

#include "serve/fields.h"
#include "serve/tinker/pages.h"

namespace trireme::tinker {

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

Json CheckpointRequests::WeightsInfo(const std::string& owner, const Json& body) const {
  const Held held(state_.mutex);
  Fields fields(body, "");
  const CheckpointRecord record = state_.checkpoints.Find(owner, ParsePath(fields.Text("tinker_path").value_or("")));
  // Clients that resume want both of what was trained in full, too: the rank is the one that was asked for.
  return {{"base_model", record.facts.value("base_model", state_.facts.model_name)},
          {"is_lora", true},
          {"lora_rank", record.facts.value("lora_rank", int64_t{32})},
          {"train_unembed", record.facts.value("full", false)},
          {"train_mlp", record.facts.value("train_mlp", true)},
          {"train_attn", record.facts.value("train_attn", true)}};
}

Json CheckpointRequests::List(const std::string& owner, const std::string& run, int64_t limit, int64_t offset) const {
  const Held held(state_.mutex);
  Json all = Json::array();
  for (const CheckpointRecord& record : state_.checkpoints.All(owner)) {
    if (run.empty() || record.path.run == run) all.push_back(CheckpointJson(record));
  }
  if (run.empty()) std::reverse(all.begin(), all.end());  // of all runs the newest ones first
  return Page("checkpoints", all, limit, offset);
}

Json CheckpointRequests::Remove(const std::string& owner, const CheckpointPath& path) const {
  const Held held(state_.mutex);
  state_.checkpoints.Remove(owner, path);
  return Json::object();
}

Json CheckpointRequests::Keep(const std::string& owner, const CheckpointPath& path, std::optional<int64_t> ttl) const {
  const Held held(state_.mutex);
  const auto expires = ttl ? std::optional(state_.checkpoints.now() + *ttl) : std::nullopt;
  state_.checkpoints.SetExpiry(owner, path, expires);
  return Json::object();
}

}  // namespace trireme::tinker
