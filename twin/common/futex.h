// Linux futex words: sleep until another thread, or another process that maps the same page, changes a word.
// Only the two system calls; the protocol around them is the caller's (see signal.h).
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>

namespace twin {

enum class FutexScope { kThreads, kProcesses };

// Sleeps while `word` holds `seen`, for at most `limit`. May wake spuriously.
inline void FutexWait(std::atomic<uint32_t>& word, uint32_t seen, std::chrono::nanoseconds limit,
                      FutexScope scope = FutexScope::kThreads) {
  const timespec ts{static_cast<time_t>(limit.count() / 1'000'000'000),
                    static_cast<long>(limit.count() % 1'000'000'000)};
  const int operation = scope == FutexScope::kThreads ? FUTEX_WAIT_PRIVATE : FUTEX_WAIT;
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, seen, &ts, nullptr, 0);
}

inline void FutexWakeAll(std::atomic<uint32_t>& word, FutexScope scope = FutexScope::kThreads) {
  const int operation = scope == FutexScope::kThreads ? FUTEX_WAKE_PRIVATE : FUTEX_WAKE;
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace twin
