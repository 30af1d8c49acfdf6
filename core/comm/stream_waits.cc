#include "core/comm/stream_waits.h"

#include <utility>

namespace trireme {

StreamWaits::Pair StreamWaits::TakePair() {
  if (spare_.empty()) return Pair();
  Pair pair = std::move(spare_.back());
  spare_.pop_back();
  return pair;
}

void StreamWaits::Settle() {
  while (!open_.empty() && open_.front().end.done()) {
    seconds_ += ElapsedMilliseconds(open_.front().begin, open_.front().end) / 1e3;
    spare_.push_back(std::move(open_.front()));
    open_.pop_front();
  }
}

}  // namespace trireme
