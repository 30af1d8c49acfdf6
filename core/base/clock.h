// The clock that durations are measured with, which never goes back; and the time of day, for records.
#pragma once

#include <chrono>
#include <cstdint>

namespace trireme {

using Clock = std::chrono::steady_clock;

inline double ToSeconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }
inline double SecondsSince(Clock::time_point start) { return ToSeconds(Clock::now() - start); }
// Since some moment that stays the same: for differences.
inline double ClockSeconds() { return ToSeconds(Clock::now().time_since_epoch()); }

// Whole seconds since 1970, by the time of day.
inline int64_t UnixSeconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace trireme
