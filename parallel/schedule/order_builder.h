// OrderBuilder: writes one rank's compute order. Counts micro batches per chunk by itself, so that a
// schedule's file holds only what is specific to that schedule.
#pragma once

#include <deque>
#include <utility>
#include <vector>

#include "parallel/schedule/actions.h"

namespace trireme {

class OrderBuilder {
 public:
  explicit OrderBuilder(int chunks) : forwards_(chunks, 0), backwards_(chunks, 0) {}

  void Forward(int chunk) { Add(ActionKind::kForward, forwards_[chunk]++, chunk); }
  void Backward(int chunk) { Add(ActionKind::kBackward, backwards_[chunk]++, chunk); }
  void BackwardInput(int chunk) {
    waiting_.push_back({backwards_[chunk], chunk});
    Add(ActionKind::kBackwardInput, backwards_[chunk]++, chunk);
  }
  // The weight gradient that has been deferred longest.
  void OldestWeight() {
    const auto [micro_batch, chunk] = waiting_.front();
    waiting_.pop_front();
    Add(ActionKind::kBackwardWeight, micro_batch, chunk);
  }
  int waiting_weights() const { return static_cast<int>(waiting_.size()); }
  std::vector<Action> Take() { return std::move(order_); }

 private:
  void Add(ActionKind kind, int micro_batch, int chunk) {
    order_.push_back({.kind = kind, .micro_batch = micro_batch, .chunk = chunk});
  }

  std::vector<int> forwards_;   // [chunks] next micro batch per chunk
  std::vector<int> backwards_;  // [chunks]
  std::deque<std::pair<int, int>> waiting_;
  std::vector<Action> order_;
};

}  // namespace trireme
