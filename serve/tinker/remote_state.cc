#include "serve/tinker/remote_state.h"

#include <ctime>
#include <utility>

#include "core/base/error.h"
#include "serve/fields.h"

namespace trireme::tinker {

std::string IsoTime(int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts = {};
  gmtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

RemoteState::RemoteState(RemoteFacts facts_of, const Checkpoints& checkpoints_of, std::function<double()> clock_of)
    : facts(std::move(facts_of)),
      checkpoints(checkpoints_of),
      clock(std::move(clock_of)),
      futures(facts.futures, [this](const std::string& owner) { return PauseOf(owner); }),
      quotas(facts.quota) {}

void RemoteState::RefuseIfClosed(const Held& /*held*/) const {
  if (closed) throw ApiError{.status = 503, .message = "the server is about to stop", .type = "server_error"};
}

void RemoteState::RefuseIfFull(const Held& /*held*/, const std::string& owner) const {
  const int64_t most = facts.quota.queued, open = futures.open(owner);
  if (most <= 0 || open < most) return;
  throw ApiError{
      .status = 429,
      .message = Concat(open, " requests of this key are not done yet, of ", most, " allowed; wait for some")};
}

std::string RemoteState::PauseOf(const std::string& owner) const {
  if (quotas.SecondsToWait(owner, clock()) <= 0) return "";
  return Concat("this key may use ", facts.quota.tokens_per_second, " tokens per second and has used more");
}

void RemoteState::Finish(const Held& /*held*/, const std::string& future, FutureResult result) {
  futures.Finish(future, std::move(result), clock());
}

void RemoteState::FailAll(const Held& held, const std::vector<Task>& tasks, const std::string& why) {
  for (const Task& task : tasks) Finish(held, task.future, Failure(why, /*users_fault=*/false));
}

void RemoteState::AddLoose(const Held& /*held*/, Task task) {
  loose.push_back(std::move(task));
  wake();
}

bool RemoteState::ChangesWeights(const TrainWork& work) const {
  // A new model starts with the weights that there are: those of the last one went with it.
  return facts.full &&
         (work.action == TrainAction::kStep || work.action == TrainAction::kLoad || work.action == TrainAction::kDrop);
}

void RemoteState::CheckKind(const CheckpointRecord& record) const {
  const std::string base = record.facts.value("base_model", facts.model_name);
  if (base != facts.model_name)
    Refuse(record.path.Text() + ": was trained from '" + base + "'; this server has '" + facts.model_name + "'");
  const bool full = record.facts.value("full", false);
  if (full == facts.full) return;
  Refuse(record.path.Text() +
         (full ? ": is a model that was trained in full; this server trains LoRA adapters: start one with --train-full"
               : ": is a LoRA adapter; this server trains a model in full: start one without --train-full"));
}

}  // namespace trireme::tinker
