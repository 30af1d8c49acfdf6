// A point in a stream that other streams and the host can wait for. An event may be recorded again and again;
// a wait refers to the latest record before it. Before the first record it counts as done.
#pragma once

#include <memory>

#include "acl/acl.h"

namespace trireme {

class Stream;

enum class EventKind {
  kSync,   // order only: the cheap one
  kTimed,  // carries a time stamp as well
};

class Event {
 public:
  explicit Event(EventKind kind = EventKind::kSync);

  void Record(const Stream& stream);
  bool done() const;
  // Blocks the host.
  void Wait() const;

  aclrtEvent handle() const { return handle_.get(); }

 private:
  struct Destroy {
    void operator()(aclrtEvent event) const { static_cast<void>(aclrtDestroyEvent(event)); }
  };
  std::unique_ptr<void, Destroy> handle_;
};

// Between two timed events that are both done.
double ElapsedMilliseconds(const Event& start, const Event& end);

}  // namespace trireme
