// Thread pool for kernel blocks: threads are reused, and the pool grows to the largest number needed at once.
// Knows nothing of streams.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>

namespace twin {

class BlockThreads {
 public:
  static BlockThreads& Get();

  // Runs `work` on its own thread: an idle one, otherwise a new one. Throws std::system_error if no thread
  // can be created.
  void Run(std::function<void()> work);

 private:
  void Loop();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> waiting_;
  size_t idle_ = 0;
};

}  // namespace twin
