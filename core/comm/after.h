// What a communication call waits for before it starts: nothing, everything queued on a stream so far, or an
// event. Passed by value at the call; it does not outlive what it refers to.
#pragma once

#include "core/device/event.h"
#include "core/device/stream.h"

namespace trireme {

class After {
 public:
  After() = default;
  After(const Stream& stream) : stream_(&stream) {}  // NOLINT: a stream is what callers have
  After(const Event& event) : event_(&event) {}      // NOLINT

  bool none() const { return stream_ == nullptr && event_ == nullptr; }
  const Stream* stream() const { return stream_; }
  const Event* event() const { return event_; }

 private:
  const Stream* stream_ = nullptr;
  const Event* event_ = nullptr;
};

}  // namespace trireme
