#include "serve/tinker/work_order.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "serve/fields.h"

namespace trireme::tinker {

bool WorkOrder::HasWork() const {
  const Held held(state_.mutex);
  return !state_.loose.empty() || !Ready(held).empty();
}

bool WorkOrder::NeedsIdle() const {
  const Held held(state_.mutex);
  return NextNeedsIdle(held);
}

double WorkOrder::Patience() const {
  const Held held(state_.mutex);
  return PatienceNow(held);
}

std::optional<Task> WorkOrder::Take(bool idle) {
  const Held held(state_.mutex);
  return TakeOne(held, idle);
}

std::vector<Task> WorkOrder::TakeJoined(bool idle) {
  const Held held(state_.mutex);
  std::vector<Task> tasks;
  if (PatienceNow(held) > 0) return tasks;
  std::optional<Task> first = TakeOne(held, idle);
  if (!first) return tasks;
  tasks.push_back(std::move(*first));
  if (tasks.front().work.action == TrainAction::kPass) Join(held, tasks);
  return tasks;
}

// The first is whose turn it is; the others follow by the same rule, each model's next request at most.
void WorkOrder::Join(const Held& held, std::vector<Task>& tasks) {
  std::set<std::string> joined = {tasks.front().work.model};
  int64_t tokens = tasks.front().work.tokens();
  while (true) {
    std::vector<Turn> ready = Ready(held);
    std::erase_if(ready, [&](const Turn& turn) {
      const Task& waiting = models_.next(held, turn.model);
      return joined.contains(turn.model) || !waiting.refusal.empty() || !MayJoin(tasks.front().work, waiting.work) ||
             tokens + waiting.work.tokens() > state_.facts.joined_tokens;
    });
    if (ready.empty()) return;
    tasks.push_back(TakeTurn(held, ready));
    joined.insert(tasks.back().work.model);
    tokens += tasks.back().work.tokens();
  }
}

// Of owners that have used up their tokens nothing is ready.
std::vector<Turn> WorkOrder::Ready(const Held& held) const {
  std::vector<Turn> ready;
  for (const auto& [id, model] : models_.all(held)) {
    if (!model.queue.ready() || state_.quotas.SecondsToWait(model.owner, state_.clock()) > 0) continue;
    ready.push_back({.owner = model.owner, .model = id, .tokens = model.queue.next().work.tokens()});
  }
  return ready;
}

// Of loose work only log-probabilities of prompts are long: they have every other turn, for nobody's training is to
// wait until there are none.
bool WorkOrder::LooseComesFirst(const Held& held) const {
  if (state_.loose.empty()) return false;
  return !scored_ || state_.loose.front().work.action != TrainAction::kPass || Ready(held).empty();
}

bool WorkOrder::NextNeedsIdle(const Held& held) const {
  if (!state_.facts.full) return false;
  if (LooseComesFirst(held)) return state_.ChangesWeights(state_.loose.front().work);
  return std::ranges::any_of(
      Ready(held), [&](const Turn& turn) { return state_.ChangesWeights(models_.next(held, turn.model).work); });
}

double WorkOrder::PatienceNow(const Held& held) const {
  if (state_.closed || !state_.loose.empty()) return 0;
  const std::vector<Turn> ready = Ready(held);
  if (ready.empty() || std::ssize(ready) >= state_.facts.together) return 0;
  std::set<std::string> here;
  int64_t tokens = 0;
  for (const Turn& turn : ready) {
    if (models_.next(held, turn.model).work.action != TrainAction::kPass) return 0;  // something to do meanwhile
    here.insert(turn.model);
    tokens += turn.tokens;
  }
  return tokens >= state_.facts.joined_tokens ? 0 : models_.expected(held).Patience(here, state_.clock());
}

// A step is short, and its client's next pass comes after it: done before a pass, that one can join. Once for each
// model between two passes, so that nobody waits for a client that sends nothing but steps.
std::vector<Turn> WorkOrder::StepsOrAll(const Held& held, std::vector<Turn> ready) const {
  std::vector<Turn> steps;
  for (const Turn& turn : ready) {
    const bool step = models_.next(held, turn.model).work.action == TrainAction::kStep;
    if (step && !stepped_.contains(turn.model)) steps.push_back(turn);
  }
  return steps.empty() ? ready : steps;
}

Task WorkOrder::TakeTurn(const Held& held, const std::vector<Turn>& ready) {
  const Turn& turn = ready[turns_.Choose(ready)];
  state_.quotas.Charge(turn.owner, turn.tokens, state_.clock());
  Task task = models_.Take(held, turn.model);
  if (task.work.action == TrainAction::kStep) stepped_.insert(turn.model);
  if (task.work.action == TrainAction::kPass) {
    stepped_.clear();
    pass_began_ = state_.clock();
  }
  return task;
}

std::optional<Task> WorkOrder::TakeOne(const Held& held, bool idle) {
  while (true) {
    if (!idle && NextNeedsIdle(held)) return std::nullopt;
    Task task;
    if (LooseComesFirst(held)) {
      task = std::move(state_.loose.front());
      state_.loose.pop_front();
      scored_ = scored_ || task.work.action == TrainAction::kPass;
    } else {
      std::vector<Turn> ready = Ready(held);
      if (ready.empty()) return std::nullopt;
      task = TakeTurn(held, StepsOrAll(held, std::move(ready)));
      scored_ = false;
    }
    if (state_.ChangesWeights(task.work)) state_.versions.Change();
    if (task.refusal.empty()) return task;
    state_.Finish(held, task.future, Failure(task.refusal, task.users_fault));
  }
}

void WorkOrder::NoteWeights(const TrainWork& work, const TrainOutcome& outcome) {
  if (!state_.ChangesWeights(work)) return;
  if (!outcome.error.empty()) return state_.versions.Undo();
  if (work.action == TrainAction::kDrop) state_.versions.AreBase();
}

void WorkOrder::Finish(const Task& task, const TrainOutcome& outcome) {
  const Held held(state_.mutex);
  models_.NoteDone(held, task.work, outcome, state_.clock() - pass_began_);
  NoteWeights(task.work, outcome);
  FutureResult result;
  if (!outcome.error.empty()) result = Failure(outcome.error, outcome.users_fault);
  try {
    if (task.finish) {
      FutureResult made = task.finish(held, outcome);
      if (outcome.error.empty()) result = std::move(made);
    }
  } catch (const ApiError& error) {
    result = Failure(error.message, error.status < 500);
  } catch (const std::exception& error) {
    TRIREME_LOG(ERROR) << "remote training: " << error.what();
    result = Failure("the server could not finish it; its log says why", /*users_fault=*/false);
  }
  if (!task.future.empty()) state_.Finish(held, task.future, std::move(result));
}

}  // namespace trireme::tinker
