// WorkThread: work that takes its time, in the order of its coming, on a thread of its own, so that the server's thread
// goes on answering. What waits has limits, by number and by bytes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace trireme {

class WorkThread {
 public:
  struct Limits {
    int64_t tasks = 256;
    int64_t bytes = int64_t{256} << 20;
  };

  explicit WorkThread(const Limits& limits);
  ~WorkThread();  // after the last task that was taken

  // bytes: that the task holds while it waits. False: too much waits already.
  [[nodiscard]] bool Add(int64_t bytes, std::function<void()> task);

 private:
  void Loop();

  const Limits limits_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::pair<int64_t, std::function<void()>>> tasks_;
  int64_t bytes_ = 0;  // of those that wait and of the one that runs
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace trireme
