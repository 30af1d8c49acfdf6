#include "ops/weight_gradients.h"

#include <utility>

namespace trireme {
namespace {

// Per process, not per thread: autograd runs the backward pass of a device's tensors on its own thread while
// the caller waits. One backward pass runs at a time.
Deferral* innermost_deferral = nullptr;
Overlap* innermost_overlap = nullptr;

}  // namespace

void WeightGradients::Add(std::function<void()> work) {
  if (innermost_deferral != nullptr) {
    innermost_deferral->work_.push_back(std::move(work));
  } else if (innermost_overlap != nullptr) {
    innermost_overlap->work_.push_back(std::move(work));
  } else {
    work();
  }
}

void WeightGradients::RunQueued() {
  if (innermost_overlap != nullptr) innermost_overlap->Finish();
}

Deferral::Deferral() : outer_(std::exchange(innermost_deferral, this)) {}

Deferral::~Deferral() { innermost_deferral = outer_; }

std::vector<std::function<void()>> Deferral::Take() { return std::exchange(work_, {}); }

Overlap::Overlap() : outer_(std::exchange(innermost_overlap, this)) {}

Overlap::~Overlap() { innermost_overlap = outer_; }

void Overlap::Finish() {
  for (std::function<void()>& work : std::exchange(work_, {})) work();
}

}  // namespace trireme
