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
constexpr uint32_t kMostCrossCoreSets = 16;  // of one flag without a wait

class LaunchState;

// Whether the compiler's automatic synchronisation is taken for granted (--cce-auto-sync): as the kernel was
// built, or as the launch says.
enum class AutoSync : uint8_t { kAsBuilt, kOff, kOn };

// What all blocks of a launch share; starts as zeros.
struct LaunchShared {
  uint32_t arrived = 0;          // at SyncAll, over all its rounds
  uint32_t ended = 0;            // blocks
  LaunchState* state = nullptr;  // the rest: made by the first block that needs it, gone with the last
  AutoSync auto_sync = AutoSync::kAsBuilt;
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
  uint32_t merged[4] = {};        // how many of each list the last MrgSort took
  Atomic atomic = Atomic::kNone;
  float deq_scale = 1;
  uint32_t synced = 0;  // rounds of SyncAll passed
  struct CrossCore {    // a flag between cores: what this block has done with it
    uint32_t sets = 0, waits = 0;
    uint8_t mode = 0;  // of its last set; a wait need not say it
  } cross_core[kCrossCoreFlags];
  uint32_t events_taken = 0;           // ids given out by AllocEventID, a bit each
  Checker* checker = nullptr;          // set in the checked build
  bool auto_sync = true;               // the checker does not ask for what the compiler would insert
  const char* waiting_file = nullptr;  // where in the kernel the block waits; told in the checked build
  int waiting_line = 0;
};

// The calling thread's, found by one load: small vector functions ask for it often.
TWIN_EXPORT extern thread_local constinit Core* this_core __attribute__((tls_model("initial-exec")));
TWIN_EXPORT Core& MakeThisCore();
inline Core& ThisCore() { return this_core != nullptr ? *this_core : MakeThisCore(); }

// Prepares the calling thread's core for a block, and ends it; the end of a checked block may throw.
TWIN_EXPORT void BeginBlock(const char* kernel, uint32_t block, uint32_t blocks, LaunchShared* shared,
                            bool checked, bool built_with_auto_sync = true);
TWIN_EXPORT void EndBlock();

// Throws std::runtime_error: "function: text (file:line)"; a null file is not named.
[[noreturn]] TWIN_EXPORT void Fail(const char* function, const std::string& text, const char* file, int line);

// Ends the block's part in its launch, however the block ended.
TWIN_EXPORT void LeaveBlock();

// Waiting for other blocks; each throws where another block has failed, or where no block is left that could
// end the wait.
TWIN_EXPORT void SyncBlocks();
// Mode 0: a wait ends when all blocks have set the flag. Mode 1: when both blocks of a pair have, 2k and 2k +
// 1.
TWIN_EXPORT void SetCrossCore(uint8_t mode, uint16_t flag);
TWIN_EXPORT void WaitCrossCore(uint16_t flag);
// A flag in global memory: set once it is clear, cleared by the one who waited for it.
TWIN_EXPORT void SetBlockFlag(uint32_t* flag);
TWIN_EXPORT void WaitBlockFlag(uint32_t* flag);

// The key that TILING_KEY_IS asks for; kernels that ask where none was given fail.
TWIN_EXPORT void SetTilingKey(uint64_t key);
TWIN_EXPORT bool TilingKeyIs(uint64_t key, const char* file, int line);

}  // namespace twin::ascendc
