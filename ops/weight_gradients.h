// When weight gradients are computed: at once, or put off so that a pipeline sends the input gradient on
// first and fills its bubbles with these. An operator's backward hands over the work; whoever runs the
// schedule decides.
#pragma once

#include <functional>
#include <vector>

namespace trireme {

class WeightGradients {
 public:
  // Runs `work` now, or keeps it where the calling thread is inside a Deferral.
  static void Add(std::function<void()> work);
};

// While it lives, weight gradients of backward passes on this thread are collected instead of computed.
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

}  // namespace trireme
