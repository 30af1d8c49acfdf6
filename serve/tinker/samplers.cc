// Samplers themselves. Samples are in samples.cc.
#include "serve/tinker/samplers.h"

#include <filesystem>
#include <utility>

#include "core/base/error.h"
#include "serve/fields.h"

namespace trireme::tinker {
namespace {

constexpr char kSamplingSeq[] = "sampling_session_seq_id";
// Adapters of samplers that stay on the device. A loop that makes a sampler after every step samples from the last
// ones; each costs the device memory of its adapters, and one that is used again later is read from its files again.
constexpr size_t kMostOpen = 16;

}  // namespace

Samplers::Samplers(RemoteState& state, Sessions& sessions) : state_(state), sessions_(sessions) {
  sessions_.WhenEnded(
      [this](const Held& held, const std::string& session, const std::string& why) { EndSession(held, session, why); });
}

Json Samplers::Create(const std::string& owner, const Json& body) {
  const Held held(state_.mutex);
  state_.RefuseIfClosed(held);
  const RemoteFacts& facts = state_.facts;
  Fields fields(body, "");
  const std::string session = fields.Text("session_id").value_or("");
  sessions_.Hear(held, owner, session);
  const auto seq = fields.Integer(kSamplingSeq, 0, INT64_MAX);
  if (!seq) fields.Fail(kSamplingSeq, "is missing");
  const auto path = fields.Text("model_path"), base = fields.Text("base_model");
  if (const auto known = ids_[session].find(*seq); known != ids_[session].end()) {
    return {{"sampling_session_id", known->second}, {"type", "create_sampling_session"}};
  }
  Sampler sampler;
  if (path) {
    const CheckpointPath parsed = ParsePath(*path);
    state_.CheckKind(state_.checkpoints.Find(owner, parsed));
    sampler.path = parsed.Text();
    sampler.directory = state_.checkpoints.DirectoryOf(owner, parsed).string();
    if (facts.full) UseWeightsOf(sampler, sampler.path);
  } else if (base && *base == facts.model_name) {
    sampler.base = true;
    sampler.state = Sampler::State::kOpen;
    if (facts.full) UseWeightsOf(sampler, "");
  } else {
    throw ApiError{.status = 400,
                   .message = "base_model '" + base.value_or("").substr(0, 120) + "' is not served here; wanted '" +
                              facts.model_name + "', or a model_path"};
  }
  return {{"sampling_session_id", Add(held, owner, session, *seq, std::move(sampler))},
          {"type", "create_sampling_session"}};
}

void Samplers::UseWeightsOf(Sampler& sampler, const std::string& path) const {
  const WeightVersions& versions = state_.versions;
  if (path.empty() ? !versions.base() : !versions.are_of(path)) {
    throw ApiError{.status = 400, .message = (path.empty() ? "base_model: " : path + ": ") + kMovedOn};
  }
  sampler.state = Sampler::State::kOpen;
  sampler.version = versions.now();
}

std::string Samplers::AddUnnamed(const Held& held, const std::string& owner, const std::string& session, int64_t seq,
                                 const std::string& directory) {
  Sampler sampler{.directory = directory, .unnamed = true};
  if (state_.facts.full) sampler = {.state = Sampler::State::kOpen, .version = state_.versions.now()};
  return Add(held, owner, session, seq, std::move(sampler));
}

std::string Samplers::Add(const Held& held, const std::string& owner, const std::string& session, int64_t seq,
                          Sampler sampler) {
  const std::string id = Concat(session, ":sample:", seq);
  sampler.owner = owner;
  sampler.session = session;
  if (samplers_.contains(id)) Drop(held, id, "another sampler was made under the same sampling_session_seq_id");
  samplers_[id] = std::move(sampler);
  ids_[session][seq] = id;
  return id;
}

Samplers::Sampler& Samplers::Find(const std::string& owner, const std::string& id) {
  const auto found = samplers_.find(id);
  if (found != samplers_.end() && found->second.owner == owner) return found->second;
  throw ApiError{.status = 404, .message = "sampling_session_id '" + id.substr(0, 120) + "': there is no such session"};
}

Json Samplers::Info(const std::string& owner, const std::string& id) const {
  const Held held(state_.mutex);
  const auto found = samplers_.find(id);
  if (found == samplers_.end() || found->second.owner != owner) {
    throw ApiError{.status = 404, .message = "there is no such sampler"};
  }
  Json info = {{"sampler_id", id}, {"base_model", state_.facts.model_name}};
  if (!found->second.path.empty()) info["model_path"] = found->second.path;
  return info;
}

std::vector<std::string> Samplers::OfSession(const Held& /*held*/, const std::string& session) const {
  std::vector<std::string> ids;
  for (const auto& [id, sampler] : samplers_) {
    if (sampler.session == session) ids.push_back(id);
  }
  return ids;
}

double Samplers::tokens_per_second(const Held& /*held*/) const { return tokens_.per_second(state_.clock()); }

void Samplers::EndSession(const Held& held, const std::string& session, const std::string& why) {
  for (const std::string& id : OfSession(held, session)) {
    Drop(held, id, why);
    state_.futures.ForgetTopics(id + "#");
    samplers_.erase(id);
  }
  ids_.erase(session);
}

void Samplers::Open(const Held& held, const std::string& id) {
  Sampler& sampler = samplers_.at(id);
  sampler.state = Sampler::State::kOpening;
  open_.insert(id);
  CloseSurplus(held);
  Task task{.work = {.action = TrainAction::kOpenSampler, .directory = sampler.directory}};
  task.finish = [this, id, directory = sampler.directory](const Held& now, const TrainOutcome& outcome) {
    FinishOpening(now, id, directory, outcome);
    return FutureResult();
  };
  state_.AddLoose(held, std::move(task));
}

void Samplers::FinishOpening(const Held& held, const std::string& id, const std::string& directory,
                             const TrainOutcome& outcome) {
  const auto found = samplers_.find(id);
  if (found == samplers_.end() || found->second.directory != directory) {  // it is gone, or another one has its id
    if (outcome.sampler >= 0)
      state_.AddLoose(held, {.work = {.action = TrainAction::kDropSampler, .sampler = outcome.sampler}});
    return;
  }
  Sampler& sampler = found->second;
  sampler.adapter = outcome.sampler;
  sampler.failure = outcome.error;
  sampler.state = outcome.error.empty() ? Sampler::State::kOpen : Sampler::State::kFailed;
  if (!outcome.error.empty()) open_.erase(id);
  for (const auto& start : std::exchange(sampler.waiting, {})) start(held);
  CloseSurplus(held);  // if all its samples were cancelled
}

void Samplers::Close(const Held& held, const std::string& id) {
  Sampler& sampler = samplers_.at(id);
  open_.erase(id);
  if (sampler.state != Sampler::State::kOpen || sampler.adapter < 0) return;
  sampler.state = Sampler::State::kClosed;
  state_.AddLoose(held, {.work = {.action = TrainAction::kDropSampler, .sampler = std::exchange(sampler.adapter, -1)}});
}

// Those used longest ago, but none that has samples to finish.
void Samplers::CloseSurplus(const Held& held) {
  while (open_.size() > kMostOpen) {
    const std::string* oldest = nullptr;
    for (const std::string& id : open_) {
      const Sampler& sampler = samplers_.at(id);
      if (sampler.state != Sampler::State::kOpen || !sampler.unfinished.empty()) continue;
      if (oldest == nullptr || sampler.used < samplers_.at(*oldest).used) oldest = &id;
    }
    if (oldest == nullptr) return;
    Close(held, std::string(*oldest));
  }
}

void Samplers::Drop(const Held& held, const std::string& id, const std::string& why) {
  Close(held, id);
  Sampler& sampler = samplers_.at(id);
  sampler.state = Sampler::State::kFailed;
  sampler.failure = why;
  sampler.waiting.clear();
  for (const auto& [future, cancelled] : std::exchange(sampler.unfinished, {})) {
    *cancelled = true;
    state_.Finish(held, future, Failure(why, /*users_fault=*/false));
  }
  std::error_code ignored;
  if (sampler.unnamed) std::filesystem::remove_all(sampler.directory, ignored);
}

}  // namespace trireme::tinker
