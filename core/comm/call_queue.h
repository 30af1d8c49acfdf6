// The calls of one group in the order they were queued: numbers them, records events around them, and finds
// out which are reached and done, for waiters and for the ledger. Knows nothing of HCCL.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/comm/after.h"
#include "core/comm/ledger.h"
#include "core/device/event.h"
#include "core/device/stream.h"

namespace trireme {

class CallQueue {
 public:
  // Both outlive the queue. `group` is the group's number in the ledger.
  CallQueue(const Stream& stream, Ledger& ledger, int group) : stream_(stream), ledger_(ledger), group_(group) {}

  // A call that is about to be queued.
  struct Call {
    uint64_t sequence;
    const char* operation;       // a literal
    std::optional<Event> start;  // done when the call's dependencies are done
    Event done;
    bool reached = false;
  };

  // Makes the stream wait for `after`. `messages`: for point to point only.
  Call Begin(const char* operation, uint64_t bytes, const After& after, std::span<const LedgerMessage> messages = {});
  // The call's work is on the stream: records it. Not called for a rejected call.
  void End(Call call);

  // Throws if the call, or one before it, failed.
  bool IsDone(uint64_t sequence);
  // The caller has seen the stream pass the call.
  void MarkDone(uint64_t sequence);
  bool IsLatest(uint64_t sequence) const;
  const char* OperationOf(uint64_t sequence) const;
  void LetWait(const Stream& stream, uint64_t sequence);

  // Queries the events and updates the ledger. From any thread that has the device.
  void Poll();

 private:
  Event TakeEvent();
  void PollLocked();
  void RetireFront();
  std::deque<Call>::const_iterator Find(uint64_t sequence) const;
  bool IsGone(uint64_t sequence) const { return calls_.empty() || sequence < calls_.front().sequence; }

  const Stream& stream_;
  Ledger& ledger_;
  const int group_;
  mutable std::mutex mutex_;  // the hang watch polls from its own thread
  std::deque<Call> calls_;    // not yet seen to be done, oldest first
  std::vector<Event> spare_events_;
  uint64_t issued_ = 0;  // number of the latest call
  std::string failure_;  // why the oldest call failed; nothing after it will finish
};

}  // namespace trireme
