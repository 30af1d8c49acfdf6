// StreamWaits: how long a stream has waited for others, from timed events around each wait. The host is
// not blocked: waits still in progress are counted later.
#pragma once

#include <deque>
#include <vector>

#include "core/device/event.h"
#include "core/device/stream.h"

namespace trireme {

class StreamWaits {
 public:
  // Times the wait that `wait` queues on the stream.
  template <typename Wait>
  void Measure(const Stream& stream, Wait wait) {
    Pair pair = TakePair();
    pair.begin.Record(stream);
    wait();
    pair.end.Record(stream);
    open_.push_back(std::move(pair));
    Settle();
  }

  // The total of all finished waits.
  double seconds() {
    Settle();
    return seconds_;
  }

 private:
  struct Pair {
    Event begin{EventKind::kTimed}, end{EventKind::kTimed};
  };
  Pair TakePair();
  void Settle();

  std::deque<Pair> open_;
  std::vector<Pair> spare_;
  double seconds_ = 0;
};

}  // namespace trireme
