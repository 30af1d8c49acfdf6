// Samplers: the base model or a saved adapter, and the samples that are drawn from them. An adapter is loaded when the
// first sample needs it, and leaves when others were used later.
#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/base/error.h"
#include "net/secret.h"
#include "serve/fields.h"
#include "serve/tinker/proto_data.h"
#include "serve/tinker/room.h"

namespace trireme::tinker {
namespace {

constexpr char kSamplingSeq[] = "sampling_session_seq_id";
constexpr int64_t kCloneNumbers = 1'000'000'000;  // a clone of a sampler counts its requests from a multiple of this
// Adapters of samplers that stay on the device. A loop that makes a sampler after every step samples from the last
// ones; each costs the device memory of its pairs, and one that is used again later is read from its files again.
constexpr size_t kMostOpen = 16;

[[noreturn]] void RefuseSample() {
  throw ApiError{.status = 429,
                 .message = "too many samples are waiting; try again later",
                 .code = "rate_limit_exceeded",
                 .type = "rate_limit_error"};
}

}  // namespace

std::string Room::NewSampler(const std::string& owner, const std::string& session_id, std::optional<int64_t> seq,
                             Sampler sampler) {
  const std::string id = Concat(session_id, ":sample:", seq ? std::to_string(*seq) : net::Hex(net::RandomBytes(6)));
  sampler.owner = owner;
  sampler.session = session_id;
  if (samplers_.contains(id)) DropSampler(id, "another sampler was made under the same sampling_session_seq_id");
  samplers_[id] = std::move(sampler);
  if (seq) sessions_.at(session_id).sampler_ids[*seq] = id;
  return id;
}

Json Room::SaveForSampler(const std::string& owner, const Json& body) {
  return Queue(owner, body, [&](Model& model, Task& task) {
    Fields fields(body, "");
    const std::string id = fields.Text("model_id").value_or("");
    const auto name = fields.Text("path");
    const auto seq = fields.Integer(kSamplingSeq, 0, INT64_MAX);
    if (name.has_value() == seq.has_value()) fields.Fail("path", Concat("wanted either it or ", kSamplingSeq));
    if (name && !IsCheckpointName(*name)) fields.Fail("path", "wanted a name of letters, digits, '.', '_' and '-'");
    const bool overwrite = fields.Switch("overwrite").value_or(false);
    fields.Accept({"seq_id", "type"});
    const Json facts = FactsOf(model, fields);
    fields.Finish();
    const CheckpointPath path{id, kSamplerKind, name.value_or("unnamed")};
    const bool no_files = facts_.full && seq;  // a sampler of the weights that there are
    const std::filesystem::path aside = no_files ? std::filesystem::path() : checkpoints_.Aside(owner, path);
    task.work.action = TrainAction::kSave;
    task.work.directory = aside.string();
    task.finish = [this, owner, path, aside, facts, overwrite, seq,
                   session = model.session](const TrainOutcome& outcome) {
      const bool ended = seq && Ended(session), taken = !seq && !overwrite && checkpoints_.Exists(owner, path);
      if (!outcome.error.empty() || taken || ended) {
        if (!aside.empty()) std::filesystem::remove_all(aside);
        if (ended) return Failure("the session has ended", /*users_fault=*/false);
        return Failure(path.Text() + ": is there already; choose another name", true);
      }
      if (seq) {
        Sampler current{.directory = aside.string(), .unnamed = true};
        if (facts_.full) current = {.state = Sampler::State::kOpen, .version = versions_.now()};
        const std::string sampler = NewSampler(owner, session, seq, std::move(current));
        return Success({{"path", nullptr}, {"sampling_session_id", sampler}, {"type", "save_weights_for_sampler"}});
      }
      checkpoints_.Commit(aside, owner, path, facts);
      if (facts_.full) versions_.AreOf(path.Text());
      return Success({{"path", path.Text()}, {"type", "save_weights_for_sampler"}});
    };
  });
}

// Ended ones are remembered for a while.
bool Room::Ended(const std::string& session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() || found->second.finished;
}

Json Room::CreateSampler(const std::string& owner, const Json& body) {
  const std::lock_guard lock(mutex_);
  RefuseIfClosed();
  Fields fields(body, "");
  const std::string session_id = fields.Text("session_id").value_or("");
  Session& session = SessionOf(owner, session_id);
  const auto seq = fields.Integer(kSamplingSeq, 0, INT64_MAX);
  if (!seq) fields.Fail(kSamplingSeq, "is missing");
  const auto path = fields.Text("model_path"), base = fields.Text("base_model");
  if (const auto known = session.sampler_ids.find(*seq); known != session.sampler_ids.end()) {
    return {{"sampling_session_id", known->second}, {"type", "create_sampling_session"}};
  }
  Sampler sampler;
  if (path) {
    const CheckpointPath parsed = ParsePath(*path);
    CheckKind(checkpoints_.Find(owner, parsed));
    sampler.path = parsed.Text();
    sampler.directory = checkpoints_.DirectoryOf(owner, parsed).string();
    if (facts_.full) UseWeightsOf(sampler, sampler.path);
  } else if (base && *base == facts_.model_name) {
    sampler.base = true;
    sampler.state = Sampler::State::kOpen;
    if (facts_.full) UseWeightsOf(sampler, "");
  } else {
    throw ApiError{.status = 400,
                   .message = "base_model '" + base.value_or("").substr(0, 120) + "' is not served here; wanted '" +
                              facts_.model_name + "', or a model_path"};
  }
  return {{"sampling_session_id", NewSampler(owner, session_id, seq, std::move(sampler))},
          {"type", "create_sampling_session"}};
}

Json Room::Sample(const std::string& owner, const Json& body) {
  const std::lock_guard lock(mutex_);
  RefuseIfClosed();
  Fields fields(body, "");
  const auto id = fields.Text("sampling_session_id");
  if (!id) Refuse("sampling_session_id: is missing; create a sampling session first");
  const auto found = samplers_.find(*id);
  if (found == samplers_.end() || found->second.owner != owner) {
    throw ApiError{.status = 404,
                   .message = "sampling_session_id '" + id->substr(0, 120) + "': there is no such session"};
  }
  SessionOf(owner, found->second.session);
  Sampler& sampler = found->second;
  const auto seq = fields.Integer("seq_id", 0, INT64_MAX);
  const auto answer = [&](const std::string& future, int64_t count) {
    Json ids = Json::array();
    for (int64_t i = 0; i < count; ++i) ids.push_back(Concat(future, ":", i));
    return Json{{"request_id", future}, {"sample_sequence_ids", ids}};
  };
  SampleOrder order = ReadSample(body, facts_.limits);
  if (seq) {
    if (const auto known = sampler.known.find(*seq); known != sampler.known.end())
      return answer(known->second, order.count);
  }
  if (door_ == nullptr) Refuse("this server does not sample");
  if (order.count > door_->most_rows()) {
    Refuse(Concat("num_samples: ", order.count, " answers are asked for; this server gives at most ",
                  door_->most_rows(), " per request"));
  }
  if (!deferred_.empty()) RefuseSample();  // those before it wait, too
  RefuseIfFull(owner);
  if (const std::string why = PauseOf(owner); !why.empty()) throw ApiError{.status = 429, .message = why};
  order.salt = owner;
  const std::string future = futures_.Add(owner, TopicOf(*id, seq.value_or(0) / kCloneNumbers));
  sampler.unfinished[future] = order.cancelled;
  sampler.used = ++uses_;
  StartSample(*id, future, order);
  if (!deferred_.empty()) {  // a failed future would be final, a 429 is not: clients send it again
    deferred_.pop_back();
    sampler.unfinished.erase(future);
    futures_.Forget(future);
    RefuseSample();
  }
  if (seq) sampler.known[*seq] = future;
  quotas_.Charge(owner, std::ssize(order.prompt), clock_());
  return answer(future, order.count);
}

// The lock is held.
void Room::OpenSampler(const std::string& id) {
  Sampler& sampler = samplers_.at(id);
  sampler.state = Sampler::State::kOpening;
  open_samplers_.insert(id);
  CloseSurplus();
  Task task{.work = {.action = TrainAction::kOpenSampler, .directory = sampler.directory}};
  task.finish = [this, id, directory = sampler.directory](const TrainOutcome& outcome) {
    FinishOpening(id, directory, outcome);
    return FutureResult();
  };
  loose_.push_back(std::move(task));
  wake_();
}

// The lock is held.
void Room::FinishOpening(const std::string& id, const std::string& directory, const TrainOutcome& outcome) {
  const auto found = samplers_.find(id);
  if (found == samplers_.end() || found->second.directory != directory) {  // it is gone, or another one has its id
    if (outcome.sampler >= 0)
      loose_.push_back({.work = {.action = TrainAction::kDropSampler, .sampler = outcome.sampler}});
    return;
  }
  Sampler& sampler = found->second;
  sampler.adapter = outcome.sampler;
  sampler.failure = outcome.error;
  sampler.state = outcome.error.empty() ? Sampler::State::kOpen : Sampler::State::kFailed;
  if (!outcome.error.empty()) open_samplers_.erase(id);
  for (const auto& start : std::exchange(sampler.waiting, {})) start();
  CloseSurplus();  // if all its samples were cancelled
}

// The lock is held.
void Room::CloseSampler(const std::string& id) {
  Sampler& sampler = samplers_.at(id);
  open_samplers_.erase(id);
  if (sampler.state != Sampler::State::kOpen || sampler.adapter < 0) return;
  loose_.push_back({.work = {.action = TrainAction::kDropSampler, .sampler = std::exchange(sampler.adapter, -1)}});
  sampler.state = Sampler::State::kClosed;
  wake_();
}

// The lock is held. Those used longest ago, but none that has samples to finish.
void Room::CloseSurplus() {
  while (open_samplers_.size() > kMostOpen) {
    const std::string* oldest = nullptr;
    for (const std::string& id : open_samplers_) {
      const Sampler& sampler = samplers_.at(id);
      if (sampler.state != Sampler::State::kOpen || !sampler.unfinished.empty()) continue;
      if (oldest == nullptr || sampler.used < samplers_.at(*oldest).used) oldest = &id;
    }
    if (oldest == nullptr) return;
    CloseSampler(std::string(*oldest));
  }
}

// The lock is held.
void Room::DropSampler(const std::string& id, const std::string& why) {
  CloseSampler(id);
  Sampler& sampler = samplers_.at(id);
  sampler.state = Sampler::State::kFailed;
  sampler.failure = why;
  sampler.waiting.clear();
  for (const auto& [future, cancelled] : std::exchange(sampler.unfinished, {})) {
    *cancelled = true;
    futures_.Finish(future, Failure(why, /*users_fault=*/false), clock_());
  }
  std::error_code ignored;
  if (sampler.unnamed) std::filesystem::remove_all(sampler.directory, ignored);
}

// The lock is held.
void Room::StartSample(const std::string& id, const std::string& future, SampleOrder order) {
  if (*order.cancelled) return;
  const auto found = samplers_.find(id);
  if (found == samplers_.end() || found->second.state == Sampler::State::kFailed) {
    const std::string why = found == samplers_.end() ? "the session has ended" : found->second.failure;
    return EndSample(id, future, Failure(why, /*users_fault=*/false));
  }
  Sampler& sampler = found->second;
  order.version = sampler.version;
  if (facts_.full && sampler.version != versions_.now()) {
    return EndSample(id, future, Failure(kMovedOn, /*users_fault=*/true));
  }
  if (sampler.state != Sampler::State::kOpen) {
    sampler.waiting.push_back([this, id, future, order] { StartSample(id, future, order); });
    if (sampler.state == Sampler::State::kClosed) OpenSampler(id);
    return;
  }
  order.adapter = sampler.adapter;
  if (!order.prompt_logprobs || order.prompt.size() < 2)
    return Generate({.sampler = id, .future = future, .order = std::move(order)});
  Task task{
      .work = {.action = TrainAction::kPass, .base = sampler.base, .directory = facts_.full ? "" : sampler.directory}};
  TrainRow row{.tokens = {order.prompt.begin(), order.prompt.end() - 1},
               .targets = {order.prompt.begin() + 1, order.prompt.end()}};
  row.inputs.weights.assign(row.targets.size(), 0.0F);
  task.work.rows = {std::move(row)};
  task.finish = [this, id, future, order](const TrainOutcome& outcome) {
    if (!outcome.error.empty()) {
      EndSample(id, future, Failure(outcome.error, outcome.users_fault));
    } else {
      Generate(
          {.sampler = id, .future = future, .order = order, .so_far = {.prompt_logprobs = outcome.logprobs.front()}});
    }
    return FutureResult();
  };
  loose_.push_back(std::move(task));
  wake_();
}

// The lock is held.
void Room::EndSample(const std::string& sampler, const std::string& future, FutureResult result) {
  if (const auto found = samplers_.find(sampler); found != samplers_.end()) found->second.unfinished.erase(future);
  futures_.Finish(future, std::move(result), clock_());
  CloseSurplus();
}

// The lock is held.
void Room::Generate(ReadySample sample) {
  if (!deferred_.empty() || !Submit(sample)) deferred_.push_back(std::move(sample));
}

// The lock is held; the answer comes on another thread.
bool Room::Submit(const ReadySample& sample) {
  if (*sample.order.cancelled) return true;
  const auto done = [this, id = sample.sampler, future = sample.future, order = sample.order,
                     so_far = sample.so_far](SampleResult result) {
    const std::lock_guard lock(mutex_);
    result.prompt_logprobs = so_far.prompt_logprobs;
    for (const Sampled& one : result.sequences) {
      quotas_.Charge(order.salt, std::ssize(one.tokens), clock_());
      sampled_.Add(std::ssize(one.tokens), clock_());
    }
    // Tokens are generated between two changes of the weights: those that were there at the end were there from the
    // start.
    if (facts_.full && result.error.empty() && order.version != versions_.now()) {
      result.error = kMovedOn;
      result.users_fault = true;
    }
    FutureResult answer = SampleAnswer(order, result);
    if (result.error.empty()) answer.proto = SampleProto(order, result);
    EndSample(id, future, std::move(answer));
  };
  try {
    door_->Submit(sample.order, done);
  } catch (const ApiError& error) {
    if (error.status == 429) return false;
    EndSample(sample.sampler, sample.future, Failure(error.message, error.status < 500));
  }
  return true;
}

}  // namespace trireme::tinker
