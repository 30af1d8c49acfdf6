#include "serve/tinker/model_queue.h"

#include <algorithm>
#include <utility>

namespace trireme::tinker {

namespace {
constexpr size_t kMostKnown = 4096;  // clients retry within minutes
}

std::optional<std::string> ModelQueue::Known(int64_t seq) const {
  const auto found = known_.find(seq);
  return found == known_.end() ? std::nullopt : std::optional(found->second);
}

void ModelQueue::Add(int64_t seq, Task task, double now) {
  known_[seq] = task.future;
  if (known_.size() > kMostKnown && known_.begin()->first < next_) known_.erase(known_.begin());
  waiting_[seq] = {std::move(task), now};
}

Task ModelQueue::Take() {
  const auto first = waiting_.begin();
  Task task = std::move(first->second.task);
  next_ = std::max(next_, first->first + 1);
  waiting_.erase(first);
  return task;
}

std::vector<Task> ModelQueue::TakeStuck(double now, double seconds) {
  if (waiting_.empty() || ready()) return {};
  double oldest = now;
  for (const auto& [seq, arrived] : waiting_) oldest = std::min(oldest, arrived.when);
  return now - oldest < seconds ? std::vector<Task>() : TakeAll();
}

std::vector<Task> ModelQueue::TakeAll() {
  std::vector<Task> tasks;
  while (!waiting_.empty()) tasks.push_back(Take());
  return tasks;
}

}  // namespace trireme::tinker
