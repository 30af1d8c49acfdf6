// Process-wide limits that a program sets, and how many cores it may use.
#pragma once

#include <atomic>
#include <cstdint>

namespace twin {

// How long a stream waits for an event before it fails; 0: no limit.
inline std::atomic<uint32_t> op_wait_timeout_s{0};

struct CoreLimits {
  uint32_t cube;
  uint32_t vector;
};

}  // namespace twin
