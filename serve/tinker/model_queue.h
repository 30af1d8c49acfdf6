// ModelQueue: the requests of one model in the order of their seq_id, whatever order they arrived in. A number that has
// not come is waited for; the same number again is the same request.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "serve/tinker/futures.h"
#include "serve/tinker/held.h"
#include "train/remote/train_work.h"

namespace trireme::tinker {

struct Task {
  std::string future = {};  // its request_id
  TrainWork work = {};
  std::string refusal = {};  // not empty: it only takes its place, and fails with this
  bool users_fault = true;   // the refusal
  std::function<FutureResult(const Held&, const TrainOutcome&)> finish = {};
};

class ModelQueue {
 public:
  // The request_id of a number that came before; nothing: it is new.
  std::optional<std::string> Known(int64_t seq) const;
  void Add(int64_t seq, Task task, double now);

  // Whether the next number is there.
  bool ready() const { return !waiting_.empty() && waiting_.begin()->first <= next_; }
  const Task& next() const { return waiting_.begin()->second.task; }  // of one that is ready
  Task Take();
  // Whether others may wait for this number: it must not be turned away.
  bool waits_for(int64_t seq) const { return seq <= next_; }
  // Of numbers that wait for one that has not come within `seconds`: they are given up.
  std::vector<Task> TakeStuck(double now, double seconds);
  std::vector<Task> TakeAll();
  size_t size() const { return waiting_.size(); }

 private:
  struct Arrived {
    Task task;
    double when = 0;
  };
  int64_t next_ = 0;
  std::map<int64_t, Arrived> waiting_;
  std::map<int64_t, std::string> known_;  // request_ids, of the last ones
};

}  // namespace trireme::tinker
