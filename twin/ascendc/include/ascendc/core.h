// The core that a block of a kernel runs on: its unified buffer, mask registers, and what its launch shares.
// One a thread; made by RunBlock. Kernels never see it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ascendc/enums.h"

#define TWIN_EXPORT __attribute__((visibility("default")))

namespace twin::ascendc {

class Checker;

constexpr uint32_t kUbBytes = 196608;
constexpr uint32_t kUbUsableBytes = 184 * 1024;  // what lies above is the system's
constexpr uint32_t kBlockBytes = 32, kRepeatBytes = 256, kMostRepeats = 255;
constexpr int kEventIds = 8, kCrossCoreFlags = 16;

// What all blocks of a launch share; starts as zeros.
struct LaunchShared {
  uint32_t arrived = 0;                       // at SyncAll, over all its rounds
  uint32_t cross_core[kCrossCoreFlags] = {};  // sets of each flag
};

enum class Atomic : uint8_t { kNone, kAdd, kMax, kMin };

struct Core {
  const char* kernel = "";
  uint32_t block = 0, blocks = 1;
  LaunchShared* shared = nullptr;
  uint8_t* ub = nullptr;  // kUbBytes, aligned to 256
  uint32_t ub_used = 0;
  void* pipe = nullptr;  // the kernel's TPipe
  uint64_t mask[2] = {};
  bool mask_counts = false;
  uint8_t compare_bits[16] = {};  // what Compare without a destination leaves
  Atomic atomic = Atomic::kNone;
  float deq_scale = 1;
  uint32_t synced = 0;                          // rounds of SyncAll passed
  uint32_t cross_waited[kCrossCoreFlags] = {};  // waits for each flag passed
  uint32_t events_taken = 0;                    // ids given out by AllocEventID, a bit each
  Checker* checker = nullptr;                   // set in the checked build
};

TWIN_EXPORT Core& ThisCore();

// Prepares the calling thread's core for a block, and ends it; the end of a checked block may throw.
TWIN_EXPORT void BeginBlock(const char* kernel, uint32_t block, uint32_t blocks, LaunchShared* shared,
                            bool checked);
TWIN_EXPORT void EndBlock();

// Throws std::runtime_error: "function: text (file:line)"; a null file is not named.
[[noreturn]] TWIN_EXPORT void Fail(const char* function, const std::string& text, const char* file, int line);

// Waits until `counter` has come to `wanted`; throws where another block has failed.
TWIN_EXPORT void WaitFor(const char* function, const uint32_t* counter, uint32_t wanted);
TWIN_EXPORT void Increment(uint32_t* counter);

}  // namespace twin::ascendc
