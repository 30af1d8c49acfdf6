// How the twin waits for another thread or process: it polls, then yields, then sleeps for growing intervals.
// Ranks may outnumber cores, so nothing here spins for long. Not a lock and not a queue.
#pragma once

#include <sched.h>
#include <time.h>

#include <chrono>
#include <cstdint>

namespace twin {

inline void CpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class Backoff {
 public:
  // One step of waiting; call it in the loop that tests the condition.
  void Pause() {
    if (++steps_ <= kPolls) return CpuRelax();
    if (steps_ == kPolls + 1) start_ = Clock::now();
    if (steps_ % 16 != 0 || Clock::now() - start_ < kYieldFor) {
      sched_yield();
      return;
    }
    sleeping_ = true;
    timespec nap{0, nap_ns_};
    nanosleep(&nap, nullptr);
    if (nap_ns_ < kLongestNapNs) nap_ns_ += nap_ns_ / 4;
  }

  // True once Pause has begun to sleep: the time to check clocks, faults and abort flags at no cost.
  bool sleeping() const { return sleeping_; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr uint64_t kPolls = 32;
  static constexpr std::chrono::microseconds kYieldFor{500};
  static constexpr long kLongestNapNs = 500'000;

  uint64_t steps_ = 0;
  Clock::time_point start_;
  long nap_ns_ = 20'000;
  bool sleeping_ = false;
};

}  // namespace twin
