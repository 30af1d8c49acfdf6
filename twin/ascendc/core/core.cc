// The calling thread's core, and waiting for other blocks.
#include "twin/ascendc/include/ascendc/core.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "twin/ascendc/core/launch_state.h"
#include "twin/ascendc/include/ascendc/checker.h"
#include "twin/include/twin/launch.h"

namespace twin::ascendc {
namespace {

struct ThreadCore {
  ThreadCore() : ub(static_cast<uint8_t*>(std::aligned_alloc(kFractalBytes, kLocalBytes)), std::free) {}
  std::unique_ptr<uint8_t, void (*)(void*)> ub;
  std::unique_ptr<Checker> checker;
  Core core;
};

ThreadCore& OfThread() {
  thread_local ThreadCore core;
  return core;
}

}  // namespace

thread_local constinit Core* this_core = nullptr;

Core& MakeThisCore() {
  this_core = &OfThread().core;
  return *this_core;
}

void BeginBlock(const char* kernel, uint32_t block, uint32_t blocks, LaunchShared* shared, bool checked,
                bool built_with_auto_sync) {
  ThreadCore& thread = OfThread();
  if (thread.ub == nullptr) Fail(kernel, "no memory for a core's buffer", nullptr, 0);
  thread.core = Core{
      .kernel = kernel,
      .block = block,
      .blocks = blocks,
      .shared = shared,
      .ub = thread.ub.get(),
      .mask = {~uint64_t{0}, ~uint64_t{0}},
      .auto_sync = shared->auto_sync == AutoSync::kAsBuilt ? built_with_auto_sync : shared->auto_sync == AutoSync::kOn};
  if (!checked) return;
  if (thread.checker == nullptr) thread.checker = std::make_unique<Checker>();
  thread.core.checker = thread.checker.get();
  thread.checker->Begin(thread.core);
}

CubeWork& CubeWork::operator+=(const CubeWork& other) {
  mte2_bytes += other.mte2_bytes, mte1_bytes += other.mte1_bytes, fixpipe_bytes += other.fixpipe_bytes;
  fractals += other.fractals, products += other.products;
  mte2_calls += other.mte2_calls, mte1_calls += other.mte1_calls, fixpipe_calls += other.fixpipe_calls;
  return *this;
}

namespace {
std::mutex work_mutex;
CubeWork work_done;
}  // namespace

CubeWork TakeCubeWork() {
  std::lock_guard lock(work_mutex);
  return std::exchange(work_done, {});
}

void EndBlock() {
  if (ThisCore().cube) {
    std::lock_guard lock(work_mutex);
    work_done += ThisCore().work;
  }
  if (Checker* checker = ThisCore().checker; checker != nullptr) checker->End();
}

void Fail(const char* function, const std::string& text, const char* file, int line) {
  std::string whole = std::string(function) + ": " + text;
  if (file != nullptr) whole += " (" + std::string(file) + ":" + std::to_string(line) + ")";
  throw std::runtime_error(whole);
}

namespace {

constexpr uint32_t kAllBlocks = ~uint32_t{0};
constexpr uint64_t kSyncAllKey = 0;

uint64_t CrossCoreKey(uint32_t group, uint16_t flag) { return (uint64_t{group} + 1) * kCrossCoreFlags + flag; }

// Waits for `counter` to reach `wanted`, or to equal it exactly.
void WaitFor(const char* function, const uint32_t* counter, uint32_t wanted, bool exactly = false) {
  const LaunchState::Wait wait{counter, wanted, exactly};
  if (wait.Over()) return;
  const Core& core = ThisCore();
  LaunchState& state = LaunchState::Of(core);
  state.AddWait(&wait);
  struct Remove {
    LaunchState& state;
    const LaunchState::Wait* wait;
    ~Remove() { state.RemoveWait(wait); }
  } remove{state, &wait};
  twinBlockWaits();
  for (uint32_t turn = 1; !wait.Over(); ++turn) {
    if (twinLaunchFailed() != 0) Fail(function, "gave up waiting: another block has failed", nullptr, 0);
    if (turn % 64 == 0 && state.Hopeless(*core.shared, core.blocks))
      Fail(function, "waits forever: all other blocks have ended or are waiting too", core.waiting_file,
           core.waiting_line);
    sched_yield();
  }
}

// The group of blocks that a cross-core flag in `mode` synchronises.
struct Group {
  uint32_t id, member, members;
};
Group GroupOf(const Core& core, uint8_t mode) {
  if (mode == 0) return {kAllBlocks, core.block, core.blocks};
  return {core.block / 2, core.block % 2, std::min(2u, core.blocks - core.block / 2 * 2)};
}

void Released(uint64_t key, uint64_t round) {
  if (Checker* checker = ThisCore().checker; checker != nullptr) checker->Release(key, round);
}
void Acquired(uint64_t key, uint64_t round, uint32_t members) {
  if (Checker* checker = ThisCore().checker; checker != nullptr) checker->Acquire(key, round, members);
}

}  // namespace

void LeaveBlock() {
  const Core& core = ThisCore();
  if (std::atomic_ref(core.shared->ended).fetch_add(1) + 1 == core.blocks) LaunchState::Delete(core.shared);
}

void SyncBlocks() {
  Core& core = ThisCore();
  Released(kSyncAllKey, ++core.synced);
  std::atomic_ref(core.shared->arrived).fetch_add(1);
  WaitFor("SyncAll", &core.shared->arrived, core.synced * core.blocks);
  Acquired(kSyncAllKey, core.synced, core.blocks);
}

void SetCrossCore(uint8_t mode, uint16_t flag) {
  Core& core = ThisCore();
  Core::CrossCore& mine = core.cross_core[flag];
  const Group group = GroupOf(core, mode);
  mine.mode = mode;
  Released(CrossCoreKey(group.id, flag), ++mine.sets);
  LaunchState::Of(core).SetCrossCore(group.id, group.member, group.members, flag);
}

void WaitCrossCore(uint16_t flag) {
  Core& core = ThisCore();
  Core::CrossCore& mine = core.cross_core[flag];
  const Group group = GroupOf(core, mine.mode);
  WaitFor("CrossCoreWaitFlag", LaunchState::Of(core).CrossCoreRounds(group.id, group.members, flag), ++mine.waits);
  Acquired(CrossCoreKey(group.id, flag), mine.waits, group.members);
}

void SetBlockFlag(uint32_t* flag) {
  WaitFor("IBSet", flag, 0, true);
  Released(reinterpret_cast<uint64_t>(flag), 0);
  std::atomic_ref(*flag).store(1);
}

void WaitBlockFlag(uint32_t* flag) {
  WaitFor("IBWait", flag, 1, true);
  Acquired(reinterpret_cast<uint64_t>(flag), 0, 1);
  std::atomic_ref(*flag).store(0);
}

namespace {
constexpr uint64_t kNoTilingKey = ~uint64_t{0};
std::atomic<uint64_t> tiling_key{kNoTilingKey};
}  // namespace

void SetTilingKey(uint64_t key) { tiling_key = key; }

bool MayHaveTilingKey(uint64_t key) {
  const uint64_t given = tiling_key;
  return given == kNoTilingKey || given == key;
}

bool TilingKeyIs(uint64_t key, const char* file, int line) {
  const uint64_t given = tiling_key;
  if (given == kNoTilingKey)
    Fail("TILING_KEY_IS", "no tiling key is set; a launch function has none, ICPU_SET_TILING_KEY sets one", file, line);
  return given == key;
}

}  // namespace twin::ascendc
