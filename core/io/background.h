// Background: one task at a time on its own thread; an error is kept until the caller asks for it.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <thread>

namespace trireme {

class Background {
 public:
  Background() = default;
  ~Background();  // tells the work to give up, then waits
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Only if no task is running. `work` may poll giving_up() while it waits for something.
  void Start(std::function<void()> work);
  void Wait();           // until it completes; rethrows its error
  void ThrowIfFailed();  // without waiting
  bool giving_up() const { return giving_up_; }

 private:
  void Join();

  std::thread thread_;
  std::atomic<bool> done_{true};
  std::atomic<bool> giving_up_{false};
  std::exception_ptr error_;  // written before done_
};

}  // namespace trireme
