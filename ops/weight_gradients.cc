#include "ops/weight_gradients.h"

#include <utility>

namespace trireme {
namespace {

// Autograd runs backward passes of CPU tensors on the thread that asked for them, so a thread's own variable
// is seen.
thread_local Deferral* innermost = nullptr;

}  // namespace

void WeightGradients::Add(std::function<void()> work) {
  if (innermost == nullptr) {
    work();
  } else {
    innermost->work_.push_back(std::move(work));
  }
}

Deferral::Deferral() : outer_(std::exchange(innermost, this)) {}

Deferral::~Deferral() { innermost = outer_; }

std::vector<std::function<void()>> Deferral::Take() { return std::exchange(work_, {}); }

}  // namespace trireme
