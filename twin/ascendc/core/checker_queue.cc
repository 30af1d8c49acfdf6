// Flags, barriers and queues: what one pipe learns of another's time, and which pipe owns a buffer.
#include <algorithm>

#include "twin/ascendc/include/ascendc/checker.h"

namespace twin::ascendc {

Checker::Clock Checker::Snapshot(pipe_t pipe) const {
  Clock clock = seen_[pipe];
  clock[pipe] = now_[pipe];
  return clock;
}

void Checker::Join(pipe_t pipe, const Clock& clock) {
  for (int other = 0; other < kPipes; ++other) seen_[pipe][other] = std::max(seen_[pipe][other], clock[other]);
}

void Checker::SetFlag(pipe_t source, pipe_t target, int id, Place place) {
  if (id < 0 || id >= kEventIds) Complain(place, "event id " + std::to_string(id) + "; wanted 0 to 7");
  Flag& flag = flags_[source][target][id];
  if (flag.set) {
    Complain(place, "flag " + std::to_string(id) + " is already set (line " + std::to_string(flag.place.line) +
                        ") and was not waited for");
  }
  flag = {true, Snapshot(source), place};
}

void Checker::WaitFlag(pipe_t source, pipe_t target, int id, Place place) {
  if (id < 0 || id >= kEventIds) Complain(place, "event id " + std::to_string(id) + "; wanted 0 to 7");
  Flag& flag = flags_[source][target][id];
  if (!flag.set) {
    Complain(place, "flag " + std::to_string(id) + " was never set: the device would wait forever");
  }
  Join(target, flag.clock);
  flag.set = false;
}

void Checker::Barrier(pipe_t pipe, Place place) {
  if (pipe == PIPE_S) Complain(place, "PIPE_S: the scalar unit waits for itself, and the device stops with an error");
  if (pipe == PIPE_ALL) {
    for (Clock& seen : seen_) seen = now_;
  } else {
    seen_[pipe][pipe] = now_[pipe];
  }
}

Checker::Buffer& Checker::Held(const void* buffer, State wanted, const char* states, Place place) {
  Buffer* found = Find(static_cast<uint32_t>(static_cast<const uint8_t*>(buffer) - core_->ub));
  if (found == nullptr) Complain(place, "the tensor is not in any buffer of this core");
  if (found->state != wanted) Complain(place, "the " + found->name + " is not " + states);
  found->place = place;
  return *found;
}

void Checker::Alloc(const void* buffer, uint32_t bytes, pipe_t producer, Place place) {
  Buffer& held = Held(buffer, State::kFree, "free", place);
  held.state = State::kAllocated;
  Join(producer, held.handed);
  Forget(buffer, bytes);
}

void Checker::EnQue(const void* buffer, pipe_t producer, Place place) {
  // A dequeued tensor may be enqueued again: computed on in between, it moves to the next pipe.
  const Buffer* found = Find(static_cast<uint32_t>(static_cast<const uint8_t*>(buffer) - core_->ub));
  Buffer& held = Held(buffer, found != nullptr && found->state == State::kTaken ? State::kTaken : State::kAllocated,
                      "allocated or dequeued (it is free or queued)", place);
  held.state = State::kQueued;
  held.handed = Snapshot(producer);
}

void Checker::DeQue(const void* buffer, pipe_t consumer, Place place) {
  Buffer& held = Held(buffer, State::kQueued, "queued", place);
  held.state = State::kTaken;
  Join(consumer, held.handed);
}

void Checker::Free(const void* buffer, pipe_t consumer, Place place) {
  const Buffer* found = Find(static_cast<uint32_t>(static_cast<const uint8_t*>(buffer) - core_->ub));
  // A tensor used only as scratch may be freed without having been enqueued.
  Buffer& held = Held(buffer, found != nullptr && found->state == State::kAllocated ? State::kAllocated : State::kTaken,
                      "dequeued (it is free or queued)", place);
  held.state = State::kFree;
  held.handed = Snapshot(consumer);
}

}  // namespace twin::ascendc
