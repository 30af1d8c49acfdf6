// Signal: wait until a condition over atomics holds; whoever changes them calls Notify. Fast when the change
// comes within microseconds (polls, then yields, so that both sides may share a core), and uses no CPU when
// it does not (sleeps on a futex). Not a lock: it protects nothing.
#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>

#include "twin/common/backoff.h"

namespace twin {

class Signal {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::time_point kNever = Clock::time_point::max();

  void Notify() {
    epoch_.fetch_add(1);
    if (sleepers_.load() != 0) WakeAll();
  }

  // Returns true once ready() is true, false at the deadline. ready() is evaluated at least every `recheck`,
  // for conditions whose owner does not know this signal (an abort flag).
  template <class Ready>
  bool Wait(const Ready& ready, Clock::time_point deadline = kNever,
            std::chrono::nanoseconds recheck = std::chrono::seconds(1)) {
    for (int i = 0; i < kPolls; ++i) {
      if (ready()) return true;
      CpuRelax();
    }
    if (YieldUntil(ready, std::min(Clock::now() + kYieldFor, deadline))) return true;
    return Sleep(ready, deadline, recheck);
  }

 private:
  // A slow yield means that the core went to other work. Then sleeping is the better way to wait: a woken
  // thread is scheduled at once, while one that returns from a yield queues after all others (measured on two
  // cores with 14 runnable threads: 17 us against milliseconds). The result is remembered for a while.
  template <class Ready>
  static bool YieldUntil(const Ready& ready, Clock::time_point end) {
    for (Clock::time_point before = Clock::now(); before < end && before.time_since_epoch() >= crowded_until.load();) {
      if (ready()) return true;
      sched_yield();
      const Clock::time_point after = Clock::now();
      if (after - before > kLongYield) crowded_until = after.time_since_epoch() + kCrowdedFor;
      before = after;
    }
    return ready();
  }

  // The order (register as a sleeper, read the epoch, test, sleep on that epoch) pairs with Notify's
  // (condition, epoch, look for sleepers): a change is either seen here or finds the sleeper registered.
  template <class Ready>
  bool Sleep(const Ready& ready, Clock::time_point deadline, std::chrono::nanoseconds recheck) {
    sleepers_.fetch_add(1);
    bool is_ready = false;
    for (;;) {
      const uint32_t seen = epoch_.load();
      is_ready = ready();
      const Clock::time_point now = Clock::now();
      if (is_ready || now >= deadline) break;
      SleepWhile(seen, std::min<std::chrono::nanoseconds>(recheck, deadline - now));
    }
    sleepers_.fetch_sub(1);
    return is_ready;
  }

  // While the epoch is `seen`, for at most `limit`. May return early for no reason.
  void SleepWhile(uint32_t seen, std::chrono::nanoseconds limit) {
    const timespec ts{static_cast<time_t>(limit.count() / 1'000'000'000),
                      static_cast<long>(limit.count() % 1'000'000'000)};
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&epoch_), FUTEX_WAIT_PRIVATE, seen, &ts, nullptr, 0);
  }

  void WakeAll() {
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&epoch_), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  }

  static constexpr int kPolls = 16;
  static constexpr std::chrono::microseconds kYieldFor{100};
  static constexpr std::chrono::microseconds kLongYield{50};
  static constexpr std::chrono::milliseconds kCrowdedFor{100};

  inline static std::atomic<Clock::duration> crowded_until{Clock::duration::zero()};

  std::atomic<uint32_t> epoch_{0};
  std::atomic<uint32_t> sleepers_{0};
};

}  // namespace twin
