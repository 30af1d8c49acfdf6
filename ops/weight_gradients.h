// When weight gradients are computed. An operator's backward hands over the work; whoever runs the schedule
// decides: at once, behind a communication that would otherwise be waited for, or put off so that a pipeline
// sends the input gradient on first and fills its bubbles with these.
#pragma once

#include <functional>
#include <vector>

namespace trireme {

class WeightGradients {
 public:
  // Runs `work` now, or keeps it while there is a Deferral or an Overlap.
  static void Add(std::function<void()> work);
  // Runs what the innermost Overlap has queued: to be called between the start of a communication and the
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

// While it lives, weight gradients wait for the next communication (RunQueued) or for Finish, whichever comes
// first. A Deferral inside it takes precedence.
class Overlap {
 public:
  Overlap();
  ~Overlap();
  Overlap(const Overlap&) = delete;
  Overlap& operator=(const Overlap&) = delete;

  // Runs what is left.
  void Finish();

 private:
  friend class WeightGradients;
  std::vector<std::function<void()>> work_;
  Overlap* outer_;
};

}  // namespace trireme
