// StreamWaits: how long a stream has stood still for others, from timed events around each wait. The host is
// not held up: what is not over yet is counted later.
#pragma once

#include <deque>
#include <vector>

#include "core/device/event.h"
#include "core/device/stream.h"

namespace trireme {

class StreamWaits {
 public:
  // Around what `wait` puts on the stream.
  template <typename Wait>
  void Measure(const Stream& stream, Wait wait) {
    Pair pair = TakePair();
    pair.begin.Record(stream);
    wait();
    pair.end.Record(stream);
    open_.push_back(std::move(pair));
    Settle();
  }

  // Of all waits that are over.
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
