// Event: a marker in a stream. Each record has a number, and a wait is for a number. ACL's three ways to
// create an event differ only in what they permit (checked in event_api.cc); the mechanism is the same.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

#include "acl/acl.h"
#include "twin/common/signal.h"

namespace twin {

enum class EventKind { kPlain, kWithFlag, kEx };  // aclrtCreateEvent, …WithFlag, …ExWithFlag

class Event {
 public:
  using Clock = std::chrono::steady_clock;

  Event(EventKind kind, uint32_t flags, int device) : kind(kind), flags(flags), device(device) {}

  const EventKind kind;
  const uint32_t flags;
  const int device;

  // On the program's thread, in call order.
  uint64_t NextRecord();             // the number of the record that is being queued
  uint64_t RecordToWaitFor() const;  // the last one queued; the next one if there is none
  uint64_t BeginReset();             // later waits are for a later record; returns FinishReset's argument
  bool recorded() const;             // since creation or the last reset

  // On the stream's worker.
  void Complete(uint64_t record, aclError error);
  void FinishReset(uint64_t upto);
  // Waits for a record; false at the deadline. `give_up` is polled and also ends the wait.
  template <class GiveUp>
  bool Wait(uint64_t record, const GiveUp& give_up, Clock::time_point deadline = Signal::kNever) {
    return signal_.Wait([&] { return completed_.load() >= record || give_up(); }, deadline,
                        std::chrono::milliseconds(10));
  }

  // Whether the stream has reached the last record queued.
  bool complete() const;
  aclError error() const { return error_.load(); }
  // When the stream reached the last record; the epoch if it has not reached any.
  Clock::time_point time() const;

  std::atomic<uint32_t> waits_pending{0};

 private:
  mutable std::mutex mutex_;  // queued_, reset_to_, time_
  uint64_t queued_ = 0;
  uint64_t reset_to_ = 0;
  Clock::time_point time_;

  std::atomic<uint64_t> completed_{0};
  std::atomic<uint64_t> cleared_{0};  // records up to this one were reset
  std::atomic<aclError> error_{ACL_SUCCESS};
  Signal signal_;
};

}  // namespace twin
