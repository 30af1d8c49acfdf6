// When weight gradients are computed. An operator's backward submits the work; the schedule's executor
// decides: at once, overlapped with a communication, or deferred so that a pipeline sends the input gradient
// first and fills its bubbles with these.
#pragma once

#include <functional>
#include <vector>

namespace trireme {

class WeightGradients {
 public:
  // Runs `work` now, or queues it while there is a Deferral or an Overlap.
  static void Add(std::function<void()> work);
  // Runs what the innermost Overlap has queued: call it between the start of a communication and the
  // wait for it.
  static void RunQueued();
};

// While it lives, weight gradients of backward passes are collected instead of computed. A process runs one
// backward pass at a time.
class Deferral {
 public:
  Deferral();
  ~Deferral();
  Deferral(const Deferral&) = delete;
  Deferral& operator=(const Deferral&) = delete;

  // Everything collected so far, in order; running it frees the activations it holds.
  std::vector<std::function<void()>> Take();

 private:
  friend class WeightGradients;
  std::vector<std::function<void()>> work_;
  Deferral* outer_;
};

// While it lives, weight gradients are queued until the next communication (RunQueued) or Finish, whichever
// comes first. A Deferral inside it takes precedence.
class Overlap {
 public:
  Overlap();
  ~Overlap();
  Overlap(const Overlap&) = delete;
  Overlap& operator=(const Overlap&) = delete;

  // Runs the rest.
  void Finish();

 private:
  friend class WeightGradients;
  std::vector<std::function<void()>> work_;
  Overlap* outer_;
};

}  // namespace trireme
