// Background: one piece of work at a time on a thread of its own; its error waits until somebody asks.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <thread>

namespace trireme {

class Background {
 public:
  Background() = default;
  ~Background();  // waits, after telling the work to give up
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Only where nothing is under way. `work` may ask giving_up() while it waits for something.
  void Start(std::function<void()> work);
  void Wait();           // until it is done; throws what it threw
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
