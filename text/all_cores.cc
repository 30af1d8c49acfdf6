#include "text/all_cores.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace trireme {
namespace {

// The error of the first item that failed.
class FirstError {
 public:
  void Take(size_t item) {
    const std::lock_guard lock(mutex_);
    if (item >= item_) return;
    item_ = item;
    error_ = std::current_exception();
  }
  bool before(size_t item) const { return item_ < item; }
  void Rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::atomic<size_t> item_ = SIZE_MAX;
  std::exception_ptr error_;
};

}  // namespace

int UsableCores() {
  cpu_set_t set;
  int cores = 1;
  if (sched_getaffinity(0, sizeof set, &set) == 0) cores = std::max(CPU_COUNT(&set), 1);
  const char* asked = std::getenv("OMP_NUM_THREADS");
  const int threads = asked ? std::atoi(asked) : 0;
  return threads > 0 ? std::min(cores, threads) : cores;
}

void OnAllCores(size_t items, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  FirstError failed;
  const auto take = [&] {
    for (size_t item = next++; item < items && !failed.before(item); item = next++) {
      try {
        work(item);
      } catch (...) {
        failed.Take(item);
      }
    }
  };
  std::vector<std::jthread> others;
  const size_t threads = std::min<size_t>(static_cast<size_t>(UsableCores()), items);
  for (size_t i = 1; i < threads; ++i) others.emplace_back(take);
  take();
  others.clear();
  failed.Rethrow();
}

}  // namespace trireme
