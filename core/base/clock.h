// The clock that durations are measured with. Not the time of day: it never goes back.
#pragma once

#include <chrono>

namespace trireme {

using Clock = std::chrono::steady_clock;

inline double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace trireme
