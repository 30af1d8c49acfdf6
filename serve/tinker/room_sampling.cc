// Samplers: the base model or a saved adapter, and the samples that are drawn from them. An adapter is loaded when the first
// sample needs it.
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

}  // namespace

std::string Room::NewSampler(const std::string& owner, const std::string& session_id, std::optional<int64_t> seq,
                             Sampler sampler) {
  const std::string id = Concat(session_id, ":sample:", seq ? std::to_string(*seq) : net::Hex(net::RandomBytes(6)));
  sampler.owner = owner;
  sampler.session = session_id;
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
    task.finish = [this, owner, path, aside, facts, overwrite, seq, session = model.session](const TrainOutcome& outcome) {
      const bool taken = !seq && !overwrite && checkpoints_.Exists(owner, path);
      if (!outcome.error.empty() || taken || !sessions_.contains(session)) {
        if (!aside.empty()) std::filesystem::remove_all(aside);
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
    throw ApiError{.status = 400, .message = "base_model '" + base.value_or("").substr(0, 120) + "' is not served here; wanted '" + facts_.model_name + "', or a model_path"};
  }
  return {{"sampling_session_id", NewSampler(owner, session_id, seq, std::move(sampler))}, {"type", "create_sampling_session"}};
}

Json Room::Sample(const std::string& owner, const Json& body) {
  const std::lock_guard lock(mutex_);
  RefuseIfClosed();
  Fields fields(body, "");
  const auto id = fields.Text("sampling_session_id");
  if (!id) Refuse("sampling_session_id: is missing; create a sampling session first");
  const auto found = samplers_.find(*id);
  if (found == samplers_.end() || found->second.owner != owner) {
    throw ApiError{.status = 404, .message = "sampling_session_id '" + id->substr(0, 120) + "': there is no such session"};
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
    if (const auto known = sampler.known.find(*seq); known != sampler.known.end()) return answer(known->second, order.count);
  }
  if (door_ == nullptr) Refuse("this server does not sample");
  RefuseIfFull(owner);
  if (const std::string why = PauseOf(owner); !why.empty()) throw ApiError{.status = 429, .message = why};
  order.salt = owner;
  quotas_.Charge(owner, std::ssize(order.prompt), clock_());
  const std::string future = futures_.Add(owner, TopicOf(*id, seq.value_or(0) / kCloneNumbers));
  if (seq) sampler.known[*seq] = future;
  const int64_t count = order.count;
  StartSample(*id, future, std::move(order));
  return answer(future, count);
}

// The lock is held.
void Room::OpenSampler(const std::string& id) {
  Sampler& sampler = samplers_.at(id);
  sampler.state = Sampler::State::kOpening;
  Task task{.work = {.action = TrainAction::kOpenSampler, .directory = sampler.directory}};
  task.finish = [this, id](const TrainOutcome& outcome) {
    const auto found = samplers_.find(id);
    if (found == samplers_.end()) {
      if (outcome.sampler >= 0) loose_.push_back({.work = {.action = TrainAction::kDropSampler, .sampler = outcome.sampler}});
      return FutureResult();
    }
    found->second.adapter = outcome.sampler;
    found->second.failure = outcome.error;
    found->second.state = outcome.error.empty() ? Sampler::State::kOpen : Sampler::State::kFailed;
    for (const auto& start : std::exchange(found->second.waiting, {})) start();
    return FutureResult();
  };
  loose_.push_back(std::move(task));
  wake_();
}

// The lock is held.
void Room::StartSample(const std::string& id, const std::string& future, SampleOrder order) {
  const auto found = samplers_.find(id);
  if (found == samplers_.end() || found->second.state == Sampler::State::kFailed) {
    const std::string why = found == samplers_.end() ? "the session has ended" : found->second.failure;
    return futures_.Finish(future, Failure(why, /*users_fault=*/false), clock_());
  }
  Sampler& sampler = found->second;
  order.version = sampler.version;
  if (facts_.full && sampler.version != versions_.now()) {
    return futures_.Finish(future, Failure(kMovedOn, /*users_fault=*/true), clock_());
  }
  if (sampler.state != Sampler::State::kOpen) {
    sampler.waiting.push_back([this, id, future, order] { StartSample(id, future, order); });
    if (sampler.state == Sampler::State::kClosed) OpenSampler(id);
    return;
  }
  order.adapter = sampler.adapter;
  if (!order.prompt_logprobs || order.prompt.size() < 2) return Generate(id, future, std::move(order), {});
  Task task{.work = {.action = TrainAction::kPass, .base = sampler.base, .directory = facts_.full ? "" : sampler.directory}};
  TrainRow row{.tokens = {order.prompt.begin(), order.prompt.end() - 1}, .targets = {order.prompt.begin() + 1, order.prompt.end()}};
  row.inputs.weights.assign(row.targets.size(), 0.0F);
  task.work.rows = {std::move(row)};
  task.finish = [this, id, future, order](const TrainOutcome& outcome) {
    if (!outcome.error.empty()) {
      futures_.Finish(future, Failure(outcome.error, outcome.users_fault), clock_());
    } else {
      Generate(id, future, order, {.prompt_logprobs = outcome.logprobs.front()});
    }
    return FutureResult();
  };
  loose_.push_back(std::move(task));
  wake_();
}

// The lock is held; the answer comes on another thread.
void Room::Generate(const std::string& /*sampler*/, const std::string& future, SampleOrder order, SampleResult so_far) {
  const auto done = [this, future, order, so_far](SampleResult result) {
    const std::lock_guard lock(mutex_);
    result.prompt_logprobs = so_far.prompt_logprobs;
    for (const Sampled& one : result.sequences) {
      quotas_.Charge(order.salt, std::ssize(one.tokens), clock_());
      sampled_.Add(std::ssize(one.tokens), clock_());
    }
    // Tokens are generated between two changes of the weights: those that were there at the end were there from the start.
    if (facts_.full && result.error.empty() && order.version != versions_.now()) {
      result.error = kMovedOn;
      result.users_fault = true;
    }
    FutureResult answer = SampleAnswer(order, result);
    if (result.error.empty()) answer.proto = SampleProto(order, result);
    futures_.Finish(future, std::move(answer), clock_());
  };
  try {
    door_->Submit(order, done);
  } catch (const ApiError& error) {
    futures_.Finish(future, Failure(error.message, error.status < 500 && error.status != 429), clock_());
  }
}

}  // namespace trireme::tinker
