// Record numbers of an event.
#include "twin/acl/runtime/event.h"

#include <algorithm>

namespace twin {

uint64_t Event::NextRecord() {
  std::lock_guard lock(mutex_);
  return ++queued_;
}

uint64_t Event::RecordToWaitFor() const {
  std::lock_guard lock(mutex_);
  return std::max(queued_, reset_to_ + 1);
}

uint64_t Event::BeginReset() {
  std::lock_guard lock(mutex_);
  reset_to_ = queued_;
  return reset_to_;
}

bool Event::recorded() const {
  std::lock_guard lock(mutex_);
  return queued_ > reset_to_;
}

void Event::Complete(uint64_t record, aclError error) {
  {
    std::lock_guard lock(mutex_);
    time_ = Clock::now();
  }
  error_ = error;
  // Two streams may reach their records in either order; the number never decreases.
  uint64_t before = completed_.load();
  while (before < record && !completed_.compare_exchange_weak(before, record)) {
  }
  signal_.Notify();
}

void Event::FinishReset(uint64_t upto) {
  uint64_t before = cleared_.load();
  while (before < upto && !cleared_.compare_exchange_weak(before, upto)) {
  }
}

bool Event::complete() const {
  std::lock_guard lock(mutex_);
  return completed_.load() >= queued_ && queued_ > cleared_.load();
}

Event::Clock::time_point Event::time() const {
  std::lock_guard lock(mutex_);
  return time_;
}

}  // namespace twin
