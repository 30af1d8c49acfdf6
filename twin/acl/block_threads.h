// Threads for the blocks of kernels: kept and reused, as many as were ever needed at once. Knows nothing of
// streams.
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

  // Runs `work` on a thread of its own: an idle one, else a new one. Throws std::system_error where there is
  // none.
  void Run(std::function<void()> work);

 private:
  void Loop();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> waiting_;
  size_t idle_ = 0;
};

}  // namespace twin
