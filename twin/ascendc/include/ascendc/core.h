// The core that a block of a kernel runs on: its local memories, its mask registers, and the state it shares
// with its launch. One per thread; created by RunBlock. Kernels never see it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ascendc/enums.h"

#define TWIN_EXPORT __attribute__((visibility("default")))

namespace twin::ascendc {

class Checker;

constexpr uint32_t kUbBytes = 196608;
constexpr uint32_t kUbUsableBytes = 184 * 1024;  // the system reserves the rest
// A core's local memories, contiguous on the host: a vector core has the first, a cube core the others.
enum class Memory : uint8_t { kUb, kL1, kL0a, kL0b, kL0c, kBiasTable, kFixpipe };
constexpr int kMemories = 7;
constexpr const char* kMemoryNames[kMemories] = {"the unified buffer", "L1", "L0A", "L0B", "L0C", "the bias table",
                                                 "the fixpipe buffer"};
constexpr uint32_t kMemoryBytes[kMemories] = {kUbBytes, 512 * 1024, 64 * 1024, 64 * 1024, 128 * 1024, 1024, 2048};
constexpr uint32_t BeginOf(Memory memory) {
  uint32_t begin = 0;
  for (int i = 0; i < static_cast<int>(memory); ++i) begin += kMemoryBytes[i];
  return begin;
}
constexpr uint32_t kLocalBytes = BeginOf(Memory::kFixpipe) + kMemoryBytes[kMemories - 1];
constexpr uint32_t kFractalBytes = 512;
constexpr uint32_t kBlockBytes = 32, kRepeatBytes = 256, kMostRepeats = 255;
constexpr int kEventIds = 8, kCrossCoreFlags = 16;
constexpr uint32_t kMostCrossCoreSets = 16;  // per flag without a wait

class LaunchState;

// Whether the compiler's automatic synchronisation is assumed (--cce-auto-sync): as the kernel was built, or
// as the launch sets it.
enum class AutoSync : uint8_t { kAsBuilt, kOff, kOn };

// What all blocks of a launch share; zero-initialised.
struct LaunchShared {
  uint32_t arrived = 0;          // at SyncAll, over all rounds
  uint32_t ended = 0;            // blocks
  LaunchState* state = nullptr;  // the rest: created by the first block that needs it, deleted with the last
  AutoSync auto_sync = AutoSync::kAsBuilt;
};

enum class Atomic : uint8_t { kNone, kAdd, kMax, kMin };

// What a block had its cube core do: bytes and instructions of each pipe, and fractals multiplied.
struct CubeWork {
  uint64_t mte2_bytes = 0, mte1_bytes = 0, fixpipe_bytes = 0;
  uint64_t fractals = 0;  // of 16 x 32 bytes of A with 32 bytes x 16 of B: one cycle each for 16-bit types
  uint64_t mte2_calls = 0, mte1_calls = 0, products = 0, fixpipe_calls = 0;
  CubeWork& operator+=(const CubeWork& other);
};

struct Core {
  const char* kernel = "";
  uint32_t block = 0, blocks = 1;
  LaunchShared* shared = nullptr;
  uint8_t* ub = nullptr;          // kLocalBytes, aligned to 512; the unified buffer is the first of them
  uint32_t used[kMemories] = {};  // bytes of each memory that TPipe has allocated
  bool cube = false;              // the kernel declared itself one of cube cores
  CubeWork work;
  void* pipe = nullptr;  // the kernel's TPipe
  uint64_t mask[2] = {};
  bool mask_counts = false;
  uint8_t compare_bits[16] = {};  // result of Compare without a destination
  uint32_t merged[4] = {};        // how many elements of each list the last MrgSort consumed
  Atomic atomic = Atomic::kNone;
  float deq_scale = 1;
  uint32_t synced = 0;  // rounds of SyncAll passed
  struct CrossCore {    // this block's state of a cross-core flag
    uint32_t sets = 0, waits = 0;
    uint8_t mode = 0;  // of its last set; a wait need not name it
  } cross_core[kCrossCoreFlags];
  uint32_t events_taken = 0;           // ids allocated by AllocEventID, one bit each
  Checker* checker = nullptr;          // set in the checked build
  bool auto_sync = true;               // the checker does not require what the compiler would insert
  const char* waiting_file = nullptr;  // where in the kernel the block waits; set in the checked build
  int waiting_line = 0;
  uint32_t calls = 0;  // of AscendC's functions by the kernel; counted in the checked build
};

// The calling thread's core, found by one load: small vector functions need it often.
TWIN_EXPORT extern thread_local constinit Core* this_core __attribute__((tls_model("initial-exec")));
TWIN_EXPORT Core& MakeThisCore();
inline Core& ThisCore() { return this_core != nullptr ? *this_core : MakeThisCore(); }

// Sets up and tears down the calling thread's core for a block; tearing down a checked block may throw.
TWIN_EXPORT void BeginBlock(const char* kernel, uint32_t block, uint32_t blocks, LaunchShared* shared, bool checked,
                            bool built_with_auto_sync = true);
TWIN_EXPORT void EndBlock();

// The work of all blocks since the last call that have ended; for tests and measurements.
TWIN_EXPORT CubeWork TakeCubeWork();

// Throws std::runtime_error: "function: text (file:line)"; a null file is not named.
[[noreturn]] TWIN_EXPORT void Fail(const char* function, const std::string& text, const char* file, int line);

// Ends the block's part in its launch, whether it succeeded or failed.
TWIN_EXPORT void LeaveBlock();

// Waiting for other blocks; each throws if another block has failed, or if no block is left that could end
// the wait.
TWIN_EXPORT void SyncBlocks();
// Mode 0: a wait ends when all blocks have set the flag. Mode 1: when both blocks of a pair, 2k and 2k + 1,
// have.
TWIN_EXPORT void SetCrossCore(uint8_t mode, uint16_t flag);
TWIN_EXPORT void WaitCrossCore(uint16_t flag);
// A flag in global memory: set once it is clear, cleared by the block that waited for it.
TWIN_EXPORT void SetBlockFlag(uint32_t* flag);
TWIN_EXPORT void WaitBlockFlag(uint32_t* flag);

// The key that TILING_KEY_IS compares with; kernels that use it without a key fail.
TWIN_EXPORT void SetTilingKey(uint64_t key);
TWIN_EXPORT bool TilingKeyIs(uint64_t key, const char* file, int line);
TWIN_EXPORT bool MayHaveTilingKey(uint64_t key);  // or none is set

}  // namespace twin::ascendc
