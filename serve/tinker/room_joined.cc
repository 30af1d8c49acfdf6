// Which requests of different models run as one: passes alike that are waiting, or that are about to come (Company): a
// model which is alone waits for nobody. The first is whose turn it is; the others follow by the same rule, each
// model's next request at most.
#include "serve/tinker/room.h"

namespace trireme::tinker {

// A step is short, and its client's next pass comes after it: done before a pass, that one can join. Once for each
// model between two passes, so that nobody waits for a client that sends nothing but steps.
std::vector<Turn> Room::StepsOrAll(std::vector<Turn> ready) const {
  std::vector<Turn> steps;
  for (const Turn& turn : ready) {
    const bool step = models_.at(turn.model).queue.next().work.action == TrainAction::kStep;
    if (step && !stepped_.contains(turn.model)) steps.push_back(turn);
  }
  return steps.empty() ? ready : steps;
}

Task Room::TakeTurn(const std::vector<Turn>& ready) {
  const Turn& turn = ready[turns_.Choose(ready)];
  quotas_.Charge(turn.owner, turn.tokens, clock_());
  Task task = models_.at(turn.model).queue.Take();
  if (task.work.action == TrainAction::kStep) stepped_.insert(turn.model);
  if (task.work.action == TrainAction::kPass) {
    stepped_.clear();
    pass_began_ = clock_();
  }
  return task;
}

double Room::Patience() const {
  const std::lock_guard lock(mutex_);
  if (closed_ || !loose_.empty()) return 0;
  const std::vector<Turn> ready = Ready();
  if (ready.empty() || std::ssize(ready) >= facts_.together) return 0;
  std::set<std::string> here;
  int64_t tokens = 0;
  for (const Turn& turn : ready) {
    if (models_.at(turn.model).queue.next().work.action != TrainAction::kPass) return 0;  // something to do meanwhile
    here.insert(turn.model);
    tokens += turn.tokens;
  }
  return tokens >= facts_.joined_tokens ? 0 : company_.Patience(here, clock_());
}

std::vector<Task> Room::TakeJoined(bool idle) {
  const std::lock_guard lock(mutex_);
  std::vector<Task> tasks;
  if (Patience() > 0) return tasks;
  std::optional<Task> first = Take(idle);
  if (!first) return tasks;
  tasks.push_back(std::move(*first));
  if (tasks.front().work.action != TrainAction::kPass) return tasks;
  std::set<std::string> joined = {tasks.front().work.model};
  int64_t tokens = tasks.front().work.tokens();
  while (true) {
    std::vector<Turn> ready = Ready();
    std::erase_if(ready, [&](const Turn& turn) {
      const Task& waiting = models_.at(turn.model).queue.next();
      return joined.contains(turn.model) || !waiting.refusal.empty() || !MayJoin(tasks.front().work, waiting.work) ||
             tokens + waiting.work.tokens() > facts_.joined_tokens;
    });
    if (ready.empty()) return tasks;
    tasks.push_back(TakeTurn(ready));
    joined.insert(tasks.back().work.model);
    tokens += tasks.back().work.tokens();
  }
}

}  // namespace trireme::tinker
