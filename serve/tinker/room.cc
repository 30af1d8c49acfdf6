// Sessions, and the order of work. Requests of models are in room_training.cc, samples in room_sampling.cc.
#include "serve/tinker/room.h"

#include <chrono>
#include <ctime>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "net/secret.h"
#include "serve/fields.h"
#include "serve/tinker/user_fields.h"

namespace trireme::tinker {

std::string IsoTime(int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts = {};
  gmtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string TopicOf(const std::string& sampler, int64_t clone) { return Concat(sampler, "#", clone); }

Room::Room(RoomFacts facts, const Checkpoints& checkpoints, std::function<double()> clock)
    : facts_(std::move(facts)),
      checkpoints_(checkpoints),
      clock_(std::move(clock)),
      futures_(facts_.futures, [this](const std::string& owner) { return PauseOf(owner); }),
      quotas_(facts_.quota) {}

void Room::Connect(SampleDoor* door, std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  door_ = door;
  wake_ = std::move(wake);
}

// The lock is held.
void Room::RefuseIfClosed() const {
  if (closed_) throw ApiError{.status = 503, .message = "the server is about to stop", .type = "server_error"};
}

// The lock is held.
void Room::RefuseIfFull(const std::string& owner) const {
  const int64_t most = facts_.quota.queued, open = futures_.open(owner);
  if (most <= 0 || open < most) return;
  throw ApiError{
      .status = 429,
      .message = Concat(open, " requests of this key are not done yet, of ", most, " allowed; wait for some")};
}

// The lock is held.
std::string Room::PauseOf(const std::string& owner) const {
  if (quotas_.SecondsToWait(owner, clock_()) <= 0) return "";
  return Concat("this key may use ", facts_.quota.tokens_per_second, " tokens per second and has used more");
}

Room::Session& Room::SessionOf(const std::string& owner, const std::string& id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end() || found->second.owner != owner) {
    throw ApiError{.status = 404, .message = "session_id '" + id.substr(0, 80) + "': there is no such session"};
  }
  if (found->second.finished)
    throw ApiError{.status = 410, .message = "session_id '" + id + "': the session has ended"};
  found->second.heard = clock_();
  return found->second;
}

Room::Model& Room::ModelOf(const std::string& owner, const std::string& id) {
  const auto found = models_.find(id);
  if (found != models_.end() && found->second.owner == owner && !found->second.dropped) return found->second;
  throw ApiError{.status = 404,
                 .message = "model_id '" + id.substr(0, 120) +
                            "': there is no such model; models end with their session and "
                            "with the server: create one and load its last checkpoint"};
}

Json Room::CreateSession(const std::string& owner, const Json& body) {
  const std::lock_guard lock(mutex_);
  RefuseIfClosed();
  Fields fields(body, "");
  if (std::ssize(sessions_) >= facts_.max_sessions)
    throw ApiError{.status = 429, .message = Concat(sessions_.size(), " sessions are open; try again later")};
  const Json metadata = UserMetadata(fields);
  const std::string id = net::Hex(net::RandomBytes(12));
  sessions_[id] = {.owner = owner,
                   .heard = clock_(),
                   .created = IsoTime(checkpoints_.now()),
                   .display_name = UserName(fields, "display_name"),
                   .user_metadata = metadata};
  return {{"type", "create_session"},
          {"session_id", id},
          {"warning_message",
           facts_.full
               ? "this server trains one model with all its parameters: the ranks that clients ask for have no effect"
               : Concat("train_unembed: this server trains no pairs beside the head, they are left out; pairs have "
                        "ranks up to ",
                        facts_.max_rank)}};
}

Json Room::Heartbeat(const std::string& owner, const Json& body) {
  const std::lock_guard lock(mutex_);
  Fields fields(body, "");
  SessionOf(owner, fields.Text("session_id").value_or(""));
  return {{"type", "session_heartbeat"}};
}

Json Room::FinishSession(const std::string& owner, const std::string& session) {
  const std::lock_guard lock(mutex_);
  SessionOf(owner, session);
  EndSession(session, "the session has ended");
  return Json::object();
}

void Room::FailAll(std::vector<Task> tasks, const std::string& why) {
  for (const Task& task : tasks) futures_.Finish(task.future, Failure(why, /*users_fault=*/false), clock_());
}

void Room::DropModel(const std::string& id, const std::string& why) {
  Model& model = models_.at(id);
  if (model.dropped) return;
  model.dropped = true;
  company_.Forget(id);
  FailAll(model.queue.TakeAll(), why);
  loose_.push_back({.work = {.action = TrainAction::kDrop, .model = id}});
  wake_();
}

void Room::EndSession(const std::string& id, const std::string& why) {
  sessions_.at(id).finished = true;
  for (auto& [name, model] : models_) {
    if (model.session == id) DropModel(name, why);
  }
  for (const auto& [name, sampler] : samplers_) {
    if (sampler.session != id) continue;
    DropSampler(name, why);
    futures_.ForgetTopics(name + "#");
  }
  std::erase_if(models_, [&](const auto& entry) { return entry.second.session == id; });
  std::erase_if(samplers_, [&](const auto& entry) { return entry.second.session == id; });
  wake_();
}

bool Room::HasWork() const {
  const std::lock_guard lock(mutex_);
  return !loose_.empty() || !Ready().empty();
}

// The lock is held. Of owners that have used up their tokens nothing is ready.
std::vector<Turn> Room::Ready() const {
  std::vector<Turn> ready;
  for (const auto& [id, model] : models_) {
    if (!model.queue.ready() || quotas_.SecondsToWait(model.owner, clock_()) > 0) continue;
    ready.push_back({.owner = model.owner, .model = id, .tokens = model.queue.next().work.tokens()});
  }
  return ready;
}

// The lock is held. Of loose work only log-probabilities of prompts are long: they have every other turn, for nobody's
// training is to wait until there are none.
bool Room::LooseComesFirst() const {
  if (loose_.empty()) return false;
  return !scored_ || loose_.front().work.action != TrainAction::kPass || Ready().empty();
}

std::optional<Task> Room::Take(bool idle) {
  const std::lock_guard lock(mutex_);
  while (true) {
    if (!idle && NeedsIdle()) return std::nullopt;
    Task task;
    if (LooseComesFirst()) {
      task = std::move(loose_.front());
      loose_.pop_front();
      scored_ = scored_ || task.work.action == TrainAction::kPass;
    } else {
      std::vector<Turn> ready = Ready();
      if (ready.empty()) return std::nullopt;
      task = TakeTurn(StepsOrAll(std::move(ready)));
      scored_ = false;
    }
    if (ChangesWeights(task.work)) versions_.Change();
    if (task.refusal.empty()) return task;
    futures_.Finish(task.future, Failure(task.refusal, task.users_fault), clock_());
  }
}

void Room::Finish(const Task& task, const TrainOutcome& outcome) {
  const std::lock_guard lock(mutex_);
  FutureResult result;
  trained_.Add(task.work.tokens(), clock_());
  if (const auto model = models_.find(task.work.model); model != models_.end()) {
    model->second.tokens.Add(task.work.tokens(), clock_());
    if (task.work.action == TrainAction::kStep && outcome.error.empty()) model->second.steps = outcome.step;
    if (task.work.action == TrainAction::kPass) company_.PassTook(clock_() - pass_began_);
    if (!model->second.dropped && model->second.queue.size() == 0) company_.Answered(model->first, clock_());
  }
  NoteWeights(task.work, outcome);
  if (!outcome.error.empty()) result = Failure(outcome.error, outcome.users_fault);
  try {
    if (task.finish) {
      FutureResult made = task.finish(outcome);
      if (outcome.error.empty()) result = std::move(made);
    }
  } catch (const ApiError& error) {
    result = Failure(error.message, error.status < 500);
  } catch (const std::exception& error) {
    TRIREME_LOG(ERROR) << "remote training: " << error.what();
    result = Failure("the server could not finish it; its log says why", /*users_fault=*/false);
  }
  if (!task.future.empty()) futures_.Finish(task.future, std::move(result), clock_());
}

void Room::Tick() {
  const std::lock_guard lock(mutex_);
  const double now = clock_();
  futures_.Tick(now);
  while (!deferred_.empty() && Submit(deferred_.front())) deferred_.pop_front();
  for (auto& [id, model] : models_) {
    FailAll(model.queue.TakeStuck(now, facts_.gap_seconds),
            "an earlier request of this model never arrived (its seq_id is missing)");
  }
  std::vector<std::string> dead;
  for (const auto& [id, session] : sessions_) {
    if (!session.finished && now - session.heard > facts_.session_seconds) dead.push_back(id);
  }
  for (const std::string& id : dead) EndSession(id, "the session's heartbeat stopped");
  std::erase_if(sessions_, [&](const auto& entry) {
    return entry.second.finished && now - entry.second.heard > 2 * facts_.session_seconds;
  });
}

void Room::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  futures_.ReleaseAll();
}

Json Room::Cancel(const std::string& owner, const Json& body) {
  const std::lock_guard lock(mutex_);
  Fields fields(body, "");
  const std::string id = fields.Text("request_id").value_or("");
  // Only samples: a training request that is left out would leave the order of the model's others in doubt.
  for (const auto& [name, sampler] : samplers_) {
    const auto found = sampler.unfinished.find(id);
    if (sampler.owner != owner || found == sampler.unfinished.end()) continue;
    *found->second = true;
    EndSample(name, id, Failure("was cancelled", true));
    break;
  }
  return Json::object();
}

void Room::Retrieve(const std::string& owner, const Json& body, bool takes_proto, std::shared_ptr<HttpReply> reply) {
  const std::lock_guard lock(mutex_);
  Fields fields(body, "");
  const std::string id = fields.Text("request_id").value_or("");
  if (closed_ && !futures_.done(id)) {
    reply->Send(
        {.status = 408, .body = JsonLine({{"type", "try_again"}, {"request_id", id}, {"queue_state", "active"}})});
    return;
  }
  futures_.Poll(id, owner, takes_proto, std::move(reply), clock_());
}

void Room::RetrieveMany(const std::string& owner, const Json& body, std::shared_ptr<HttpReply> reply) {
  const std::lock_guard lock(mutex_);
  RefuseIfClosed();
  Fields fields(body, "");
  const Json* target = fields.Find("target");
  if (target == nullptr) fields.Fail("target", "is missing");
  Fields of(*target, "target");
  const std::string sampler = of.Text("sampling_session_id").value_or("");
  const int64_t clone = of.Integer("cloned_sampler_id", 0, INT64_MAX).value_or(0);
  const auto found = samplers_.find(sampler);
  if (found == samplers_.end() || found->second.owner != owner) {
    throw ApiError{.status = 404,
                   .message = "sampling_session_id '" + sampler.substr(0, 120) + "': there is no such session"};
  }
  std::vector<std::string> retrieved;
  if (const Json* ids = fields.Find("retrieved_request_ids"); ids != nullptr && ids->is_array()) {
    for (const Json& id : *ids) {
      if (id.is_string()) retrieved.push_back(id);
    }
  }
  futures_.PollTopic(TopicOf(sampler, clone), owner, fields.Integer("prev_cursor", 0, INT64_MAX).value_or(0), retrieved,
                     std::move(reply), clock_());
}

}  // namespace trireme::tinker
