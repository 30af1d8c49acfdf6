#include "core/comm/call_queue.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace trireme {

Event CallQueue::TakeEvent() {
  if (spare_events_.empty()) return Event();
  Event event = std::move(spare_events_.back());
  spare_events_.pop_back();
  return event;
}

CallQueue::Call CallQueue::Begin(const char* operation, uint64_t bytes, const After& after,
                                 std::span<const LedgerMessage> messages) {
  const std::lock_guard lock(mutex_);
  PollLocked();
  Call call{++issued_, operation, std::nullopt, TakeEvent()};
  if (after.stream() != nullptr) {
    call.start = TakeEvent();
    call.start->Record(*after.stream());
    stream_.WaitFor(*call.start);
  } else if (after.event() != nullptr) {
    stream_.WaitFor(*after.event());
    call.start = TakeEvent();
    call.start->Record(stream_);
  }
  ledger_.Issued(group_, call.sequence, operation, bytes, messages);
  return call;
}

void CallQueue::End(Call call) {
  call.done.Record(stream_);
  const std::lock_guard lock(mutex_);
  calls_.push_back(std::move(call));
}

bool CallQueue::IsDone(uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  PollLocked();
  if (IsGone(sequence)) return true;
  if (!failure_.empty()) throw RuntimeError(failure_);
  return false;
}

void CallQueue::MarkDone(uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  while (!IsGone(sequence)) RetireFront();
}

bool CallQueue::IsLatest(uint64_t sequence) const {
  const std::lock_guard lock(mutex_);
  return sequence == issued_;
}

const char* CallQueue::OperationOf(uint64_t sequence) const {
  const std::lock_guard lock(mutex_);
  const auto call = Find(sequence);
  return call == calls_.end() ? "a finished call" : call->operation;
}

void CallQueue::LetWait(const Stream& stream, uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  PollLocked();
  const auto call = Find(sequence);
  if (call != calls_.end()) stream.WaitFor(call->done);
}

// Numbers have gaps where HCCL rejected a call.
std::deque<CallQueue::Call>::const_iterator CallQueue::Find(uint64_t sequence) const {
  return std::find_if(calls_.begin(), calls_.end(), [sequence](const Call& call) { return call.sequence == sequence; });
}

void CallQueue::Poll() {
  const std::lock_guard lock(mutex_);
  PollLocked();
}

// A stream works in order: the first unfinished call blocks all after it.
void CallQueue::PollLocked() {
  while (!calls_.empty() && failure_.empty()) {
    Call& call = calls_.front();
    try {
      const bool done = call.done.done();
      if (done) call.done.Wait();  // an event of a failed stream is done as well; waiting reports the failure
      if (!call.reached && (done || !call.start || call.start->done())) {
        call.reached = true;
        ledger_.Reached(group_, call.sequence);
      }
      if (!done) return;
      RetireFront();
    } catch (const Error& error) {
      failure_ = error.what();
    }
  }
}

void CallQueue::RetireFront() {
  Call& call = calls_.front();
  ledger_.Done(group_, call.sequence);
  spare_events_.push_back(std::move(call.done));
  if (call.start) spare_events_.push_back(std::move(*call.start));
  calls_.pop_front();
}

}  // namespace trireme
