// Samples of Samplers: from a request to what was generated.
#include <utility>

#include "core/base/error.h"
#include "serve/fields.h"
#include "serve/tinker/proto_data.h"
#include "serve/tinker/samplers.h"

namespace trireme::tinker {
namespace {

constexpr int64_t kCloneNumbers = 1'000'000'000;  // a clone of a sampler counts its requests from a multiple of this

[[noreturn]] void RefuseSample() {
  throw ApiError{.status = 429,
                 .message = "too many samples are waiting; try again later",
                 .code = "rate_limit_exceeded",
                 .type = "rate_limit_error"};
}

// Under which futures of a sampler's clone are waited for together.
std::string TopicOf(const std::string& sampler, int64_t clone) { return Concat(sampler, "#", clone); }

Json ResponseOf(const std::string& future, int64_t count) {
  Json ids = Json::array();
  for (int64_t i = 0; i < count; ++i) ids.push_back(Concat(future, ":", i));
  return {{"request_id", future}, {"sample_sequence_ids", ids}};
}

}  // namespace

void Samplers::RefuseNow(const Held& held, const std::string& owner, const SampleOrder& order) const {
  if (state_.generator == nullptr) Refuse("this server does not sample");
  const int64_t most = state_.generator->most_rows();
  if (order.count > most) {
    Refuse(Concat("num_samples: ", order.count, " answers are asked for; this server gives at most ", most,
                  " per request"));
  }
  if (!deferred_.empty()) RefuseSample();  // those before it wait, too
  state_.RefuseIfFull(held, owner);
  if (const std::string why = state_.PauseOf(owner); !why.empty()) throw ApiError{.status = 429, .message = why};
}

Json Samplers::Sample(const std::string& owner, const Json& body) {
  const Held held(state_.mutex);
  state_.RefuseIfClosed(held);
  Fields fields(body, "");
  const auto id = fields.Text("sampling_session_id");
  if (!id) Refuse("sampling_session_id: is missing; create a sampling session first");
  Sampler& sampler = Find(owner, *id);
  sessions_.Hear(held, owner, sampler.session);
  const auto seq = fields.Integer("seq_id", 0, INT64_MAX);
  SampleOrder order = ReadSample(body, state_.facts.limits);
  if (seq) {
    if (const auto known = sampler.known.find(*seq); known != sampler.known.end())
      return ResponseOf(known->second, order.count);
  }
  RefuseNow(held, owner, order);
  order.salt = owner;
  const std::string future = state_.futures.Add(owner, TopicOf(*id, seq.value_or(0) / kCloneNumbers));
  sampler.unfinished[future] = order.cancelled;
  sampler.used = ++uses_;
  Start(held, *id, future, order);
  if (!deferred_.empty()) {  // a failed future would be final, a 429 is not: clients send it again
    deferred_.pop_back();
    sampler.unfinished.erase(future);
    state_.futures.Forget(future);
    RefuseSample();
  }
  if (seq) sampler.known[*seq] = future;
  state_.quotas.Charge(owner, std::ssize(order.prompt), state_.clock());
  return ResponseOf(future, order.count);
}

Json Samplers::Cancel(const std::string& owner, const Json& body) {
  const Held held(state_.mutex);
  Fields fields(body, "");
  const std::string id = fields.Text("request_id").value_or("");
  // Only samples: a training request that is left out would leave the order of the model's others in doubt.
  for (const auto& [name, sampler] : samplers_) {
    const auto found = sampler.unfinished.find(id);
    if (sampler.owner != owner || found == sampler.unfinished.end()) continue;
    *found->second = true;
    End(held, name, id, Failure("was cancelled", true));
    break;
  }
  return Json::object();
}

void Samplers::Retrieve(const std::string& owner, const Json& body, std::shared_ptr<HttpReply> reply) {
  const Held held(state_.mutex);
  state_.RefuseIfClosed(held);
  Fields fields(body, "");
  const Json* target = fields.Find("target");
  if (target == nullptr) fields.Fail("target", "is missing");
  Fields of(*target, "target");
  const std::string sampler = of.Text("sampling_session_id").value_or("");
  const int64_t clone = of.Integer("cloned_sampler_id", 0, INT64_MAX).value_or(0);
  Find(owner, sampler);
  std::vector<std::string> retrieved;
  if (const Json* ids = fields.Find("retrieved_request_ids"); ids != nullptr && ids->is_array()) {
    for (const Json& id : *ids) {
      if (id.is_string()) retrieved.push_back(id);
    }
  }
  state_.futures.PollTopic(TopicOf(sampler, clone), owner, fields.Integer("prev_cursor", 0, INT64_MAX).value_or(0),
                           retrieved, std::move(reply), state_.clock());
}

void Samplers::Tick(const Held& held) {
  while (!deferred_.empty() && Submit(held, deferred_.front())) deferred_.pop_front();
}

void Samplers::Start(const Held& held, const std::string& id, const std::string& future, SampleOrder order) {
  if (*order.cancelled) return;
  const auto found = samplers_.find(id);
  if (found == samplers_.end() || found->second.state == Sampler::State::kFailed) {
    const std::string why = found == samplers_.end() ? "the session has ended" : found->second.failure;
    return End(held, id, future, Failure(why, /*users_fault=*/false));
  }
  Sampler& sampler = found->second;
  order.version = sampler.version;
  if (state_.facts.full && sampler.version != state_.versions.now()) {
    return End(held, id, future, Failure(kMovedOn, /*users_fault=*/true));
  }
  if (sampler.state != Sampler::State::kOpen) {
    sampler.waiting.push_back([this, id, future, order](const Held& now) { Start(now, id, future, order); });
    if (sampler.state == Sampler::State::kClosed) Open(held, id);
    return;
  }
  order.adapter = sampler.adapter;
  const bool scored = order.prompt_logprobs && order.prompt.size() >= 2;
  ReadySample sample{.sampler = id, .future = future, .order = std::move(order)};
  scored ? ScorePrompt(held, sampler, std::move(sample)) : Generate(held, std::move(sample));
}

// The prompt's log-probabilities are a pass; what follows it is generated afterwards.
void Samplers::ScorePrompt(const Held& held, const Sampler& sampler, ReadySample sample) {
  const std::vector<int64_t>& prompt = sample.order.prompt;
  Task task{.work = {.action = TrainAction::kPass,
                     .base = sampler.base,
                     .directory = state_.facts.full ? "" : sampler.directory}};
  TrainRow row{.tokens = {prompt.begin(), prompt.end() - 1}, .targets = {prompt.begin() + 1, prompt.end()}};
  row.inputs.weights.assign(row.targets.size(), 0.0F);
  task.work.rows = {std::move(row)};
  task.finish = [this, sample = std::move(sample)](const Held& now, const TrainOutcome& outcome) {
    if (!outcome.error.empty()) {
      End(now, sample.sampler, sample.future, Failure(outcome.error, outcome.users_fault));
    } else {
      ReadySample ready = sample;
      ready.so_far = {.prompt_logprobs = outcome.logprobs.front()};
      Generate(now, std::move(ready));
    }
    return FutureResult();
  };
  state_.AddLoose(held, std::move(task));
}

void Samplers::End(const Held& held, const std::string& sampler, const std::string& future, FutureResult result) {
  if (const auto found = samplers_.find(sampler); found != samplers_.end()) found->second.unfinished.erase(future);
  state_.Finish(held, future, std::move(result));
  CloseSurplus(held);
}

void Samplers::Generate(const Held& held, ReadySample sample) {
  if (!deferred_.empty() || !Submit(held, sample)) deferred_.push_back(std::move(sample));
}

bool Samplers::Submit(const Held& held, const ReadySample& sample) {
  if (*sample.order.cancelled) return true;
  try {
    state_.generator->Submit(sample.order, [this, sample](SampleResult result) {
      const Held later(state_.mutex);  // on another thread
      Finish(later, sample, std::move(result));
    });
  } catch (const ApiError& error) {
    if (error.status == 429) return false;
    End(held, sample.sampler, sample.future, Failure(error.message, error.status < 500));
  }
  return true;
}

void Samplers::Finish(const Held& held, const ReadySample& sample, SampleResult result) {
  const SampleOrder& order = sample.order;
  result.prompt_logprobs = sample.so_far.prompt_logprobs;
  for (const Sampled& one : result.sequences) {
    state_.quotas.Charge(order.salt, std::ssize(one.tokens), state_.clock());
    tokens_.Add(std::ssize(one.tokens), state_.clock());
  }
  // Tokens are generated between two changes of the weights: those that were there at the end were there from the
  // start.
  if (state_.facts.full && result.error.empty() && order.version != state_.versions.now()) {
    result.error = kMovedOn;
    result.users_fault = true;
  }
  FutureResult answer = SampleAnswer(order, result);
  if (result.error.empty()) answer.proto = SampleProto(order, result);
  End(held, sample.sampler, sample.future, std::move(answer));
}

}  // namespace trireme::tinker
