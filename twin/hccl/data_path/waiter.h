// Waiting inside an operation: pauses, lets remote links make progress, and gives up with an error that names
// the missing ranks when the group has failed, a member has left, the stream is aborted or the execution
// timeout expires.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "twin/common/backoff.h"
#include "twin/hccl/data_path/data_path.h"

namespace twin {

// Throws if the group has failed or the stream is being aborted.
void ThrowIfFailed(const DataPath& path, const Operation& operation);

class Waiter {
 public:
  Waiter(DataPath& path, const Operation& operation) : path_(path), operation_(operation) {}

  // One step of waiting; `missing` returns the ranks waited for and is called only when something is wrong.
  template <typename Missing>
  void Pause(Missing&& missing) {
    if (path_.ProgressRemote()) return;
    backoff_.Pause();
    if (backoff_.sleeping()) GiveUpIfHopeless(missing);
  }

  // Call it after progress: the wait starts over.
  void Restart() {
    backoff_ = Backoff();
    start_ = Clock::time_point();
    saw_departure_ = false;
  }

 private:
  using Clock = std::chrono::steady_clock;

  template <typename Missing>
  void GiveUpIfHopeless(Missing& missing) {
    if (start_ == Clock::time_point()) start_ = Clock::now();
    ThrowIfFailed(path_, operation_);
    if (TimedOut()) ThrowTimeout(missing());
    if (path_.group().left_count() > 0) ThrowIfLeft(missing());
  }

  bool TimedOut() const;
  [[noreturn]] void ThrowTimeout(const std::vector<uint32_t>& missing) const;
  void ThrowIfLeft(const std::vector<uint32_t>& missing);

  DataPath& path_;
  const Operation& operation_;
  Backoff backoff_;
  Clock::time_point start_;
  bool saw_departure_ = false;
};

}  // namespace twin
