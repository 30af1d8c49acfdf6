// Synchronisation: mask registers, barriers and flags between the pipes of a core, barriers and flags between
// cores, and what a block knows about its launch.
#pragma once

#include <chrono>

#include "ascendc/tensor.h"

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {

inline void SetMaskCount() { twin::ascendc::ThisCore().mask_counts = true; }
inline void SetMaskNorm() { twin::ascendc::ThisCore().mask_counts = false; }
template <typename T, MaskMode mode = MaskMode::NORMAL>
void SetVectorMask(const uint64_t maskHigh, const uint64_t maskLow) {
  twin::ascendc::Core& core = twin::ascendc::ThisCore();
  core.mask[0] = maskLow, core.mask[1] = maskHigh;
}
template <typename T, MaskMode mode = MaskMode::NORMAL>
void SetVectorMask(int32_t length) {
  twin::ascendc::Core& core = twin::ascendc::ThisCore();
  const auto n = static_cast<uint64_t>(length);
  if (mode == MaskMode::COUNTER || core.mask_counts) {
    core.mask[0] = n, core.mask[1] = 0;
    return;
  }
  core.mask[0] = n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
  core.mask[1] = n >= 128 ? ~uint64_t{0} : (n > 64 ? (uint64_t{1} << (n - 64)) - 1 : 0);
}
inline void ResetMask() {
  twin::ascendc::Core& core = twin::ascendc::ThisCore();
  core.mask[0] = core.mask[1] = ~uint64_t{0};
}

namespace sync {

struct Pair {
  pipe_t source, target;
};
constexpr Pair PipesOf(HardEvent event) {
  switch (event) {
    case HardEvent::MTE2_MTE1:
      return {PIPE_MTE2, PIPE_MTE1};
    case HardEvent::MTE1_MTE2:
      return {PIPE_MTE1, PIPE_MTE2};
    case HardEvent::MTE1_M:
      return {PIPE_MTE1, PIPE_M};
    case HardEvent::M_MTE1:
      return {PIPE_M, PIPE_MTE1};
    case HardEvent::MTE2_V:
      return {PIPE_MTE2, PIPE_V};
    case HardEvent::V_MTE2:
      return {PIPE_V, PIPE_MTE2};
    case HardEvent::MTE3_V:
      return {PIPE_MTE3, PIPE_V};
    case HardEvent::V_MTE3:
      return {PIPE_V, PIPE_MTE3};
    case HardEvent::M_V:
      return {PIPE_M, PIPE_V};
    case HardEvent::V_M:
      return {PIPE_V, PIPE_M};
    case HardEvent::V_V:
      return {PIPE_V, PIPE_V};
    case HardEvent::MTE3_MTE1:
      return {PIPE_MTE3, PIPE_MTE1};
    case HardEvent::MTE1_MTE3:
      return {PIPE_MTE1, PIPE_MTE3};
    case HardEvent::MTE1_V:
      return {PIPE_MTE1, PIPE_V};
    case HardEvent::MTE2_M:
      return {PIPE_MTE2, PIPE_M};
    case HardEvent::M_MTE2:
      return {PIPE_M, PIPE_MTE2};
    case HardEvent::V_MTE1:
      return {PIPE_V, PIPE_MTE1};
    case HardEvent::MTE3_MTE2:
      return {PIPE_MTE3, PIPE_MTE2};
    case HardEvent::MTE2_MTE3:
      return {PIPE_MTE2, PIPE_MTE3};
    case HardEvent::S_V:
      return {PIPE_S, PIPE_V};
    case HardEvent::V_S:
      return {PIPE_V, PIPE_S};
    case HardEvent::S_MTE2:
      return {PIPE_S, PIPE_MTE2};
    case HardEvent::MTE2_S:
      return {PIPE_MTE2, PIPE_S};
    case HardEvent::S_MTE3:
      return {PIPE_S, PIPE_MTE3};
    case HardEvent::MTE3_S:
      return {PIPE_MTE3, PIPE_S};
    case HardEvent::M_FIX:
      return {PIPE_M, PIPE_FIX};
    case HardEvent::FIX_M:
      return {PIPE_FIX, PIPE_M};
    case HardEvent::MTE2_FIX:
      return {PIPE_MTE2, PIPE_FIX};
    case HardEvent::FIX_MTE2:
      return {PIPE_FIX, PIPE_MTE2};
    case HardEvent::FIX_S:
      return {PIPE_FIX, PIPE_S};
    case HardEvent::M_S:
      return {PIPE_M, PIPE_S};
    case HardEvent::FIX_MTE3:
      return {PIPE_FIX, PIPE_MTE3};
    case HardEvent::MTE1_FIX:
      return {PIPE_MTE1, PIPE_FIX};
    case HardEvent::FIX_MTE1:
      return {PIPE_FIX, PIPE_MTE1};
    case HardEvent::MAX:
      break;
  }
  return {PIPE_M, PIPE_M};
}

}  // namespace sync

template <HardEvent event>
void SetFlag(int32_t eventID, Where where = Where::Here()) {
  constexpr sync::Pair kPipes = sync::PipesOf(event);
  TWIN_TELL(SetFlag(kPipes.source, kPipes.target, eventID, policy::At("SetFlag", where)));
}
template <HardEvent event>
void WaitFlag(int32_t eventID, Where where = Where::Here()) {
  constexpr sync::Pair kPipes = sync::PipesOf(event);
  TWIN_TELL(WaitFlag(kPipes.source, kPipes.target, eventID, policy::At("WaitFlag", where)));
}
template <pipe_t pipe>
void PipeBarrier(Where where = Where::Here()) {
  TWIN_TELL(Barrier(pipe, policy::At("PipeBarrier", where)));
}

// The intrinsics beneath these; older kernels call them directly.
inline void set_flag(pipe_t source, pipe_t target, event_t id, Where where = Where::Here()) {
  TWIN_TELL(SetFlag(source, target, id, policy::At("set_flag", where)));
}
inline void wait_flag(pipe_t source, pipe_t target, event_t id, Where where = Where::Here()) {
  TWIN_TELL(WaitFlag(source, target, id, policy::At("wait_flag", where)));
}
inline void pipe_barrier(pipe_t pipe, Where where = Where::Here()) {
  TWIN_TELL(Barrier(pipe, policy::At("pipe_barrier", where)));
}

// Kernels also give the id as a number.
template <typename Id>
  requires std::is_integral_v<Id>
void set_flag(pipe_t source, pipe_t target, Id id, Where where = Where::Here()) {
  set_flag(source, target, static_cast<event_t>(id), where);
}
template <typename Id>
  requires std::is_integral_v<Id>
void wait_flag(pipe_t source, pipe_t target, Id id, Where where = Where::Here()) {
  wait_flag(source, target, static_cast<event_t>(id), where);
}

// The same as an object for one pair of pipes.
template <pipe_t src, pipe_t dst>
class TQueSync {
 public:
  void SetFlag(TEventID id, Where where = Where::Here()) {
    TWIN_TELL(SetFlag(src, dst, id, policy::At("TQueSync::SetFlag", where)));
  }
  void WaitFlag(TEventID id, Where where = Where::Here()) {
    TWIN_TELL(WaitFlag(src, dst, id, policy::At("TQueSync::WaitFlag", where)));
  }
};

// A barrier over all blocks of the launch.
template <bool isAIVOnly = true>
void SyncAll(Where where = Where::Here()) {
  TWIN_TELL(Barrier(PIPE_ALL, policy::At("SyncAll", where)));
  policy::Waits(where);
  twin::ascendc::SyncBlocks();
}
// The same through a workspace: 32 bytes per block there and in the buffer, zeroed before the launch.
template <bool isAIVOnly = true>
void SyncAll(const GlobalTensor<int32_t>& gmWorkspace, const LocalTensor<int32_t>& ubWorkspace,
             const int32_t usedCores = 0, Where where = Where::Here()) {
  const uint32_t blocks = twin::ascendc::ThisCore().blocks;
  policy::Wants(usedCores == 0 || static_cast<uint32_t>(usedCores) == blocks,
                "usedCores must be 0 or the number of blocks", "SyncAll", where);
  policy::Wants(gmWorkspace.GetSize() == 0 || gmWorkspace.GetSize() >= blocks * 8,
                "the workspace needs 32 bytes per block", "SyncAll", where);
  policy::Wants(ubWorkspace.GetSize() >= blocks * 8, "the local workspace needs 32 bytes per block", "SyncAll", where);
  SyncAll<isAIVOnly>(where);
}

// A block's flags in global memory, 32 bytes each.
namespace sync {
inline uint32_t* BlockFlag(const GlobalTensor<int32_t>& workspace, const LocalTensor<int32_t>& local, int32_t block,
                           int32_t event, const char* function, Where where) {
  const uint32_t blocks = twin::ascendc::ThisCore().blocks;
  policy::Wants(block >= 0 && static_cast<uint32_t>(block) < blocks, "no such block", function, where);
  policy::Wants(local.GetSize() >= 8, "the local workspace needs 32 bytes", function, where);
  const uint64_t at = (static_cast<uint64_t>(event) * blocks + static_cast<uint64_t>(block)) * 8;
  policy::Wants(workspace.GetSize() == 0 || workspace.GetSize() >= at + 8,
                "the workspace needs 32 bytes per block and event", function, where);
  return reinterpret_cast<uint32_t*>(workspace.data()) + at;
}
}  // namespace sync
template <bool isAIVOnly = true>
void IBSet(const GlobalTensor<int32_t>& gmWorkspace, const LocalTensor<int32_t>& ubWorkspace, int32_t blockIdx,
           int32_t eventID, Where where = Where::Here()) {
  TWIN_TELL(Barrier(PIPE_ALL, policy::At("IBSet", where)));
  policy::Waits(where);
  twin::ascendc::SetBlockFlag(sync::BlockFlag(gmWorkspace, ubWorkspace, blockIdx, eventID, "IBSet", where));
}
template <bool isAIVOnly = true>
void IBWait(const GlobalTensor<int32_t>& gmWorkspace, const LocalTensor<int32_t>& ubWorkspace, int32_t blockIdx,
            int32_t eventID, Where where = Where::Here()) {
  policy::Wants(blockIdx != static_cast<int32_t>(twin::ascendc::ThisCore().block), "a block cannot wait for itself",
                "IBWait", where);
  policy::Waits(where);
  twin::ascendc::WaitBlockFlag(sync::BlockFlag(gmWorkspace, ubWorkspace, blockIdx, eventID, "IBWait", where));
  TWIN_TELL(Barrier(PIPE_ALL, policy::At("IBWait", where)));
}

namespace sync {
inline void WantsFlag(uint16_t flag, const char* function, Where where) {
  if (flag >= twin::ascendc::kCrossCoreFlags) policy::Fail(function, "flag ids are 0 to 15", where);
}
}  // namespace sync
// Mode 0: a wait ends when all blocks have set the flag. Mode 1: when both blocks of a pair, 2k and 2k + 1,
// have.
template <uint8_t modeId, pipe_t pipe>
void CrossCoreSetFlag(uint16_t flagId, Where where = Where::Here()) {
  static_assert(modeId <= 2, "modes are 0, 1 and 2");
  sync::WantsFlag(flagId, "CrossCoreSetFlag", where);
  if constexpr (modeId == 2)
    policy::Fail("CrossCoreSetFlag",
                 "mode 2 is between a cube core and its vector cores; a kernel here runs on one kind", where);
  TWIN_TELL(SetCrossCore(pipe, modeId, flagId, policy::At("CrossCoreSetFlag", where)));
  twin::ascendc::SetCrossCore(modeId, flagId);
}
// The mode of the block's own set applies.
template <uint8_t modeId = 0, pipe_t pipe = PIPE_S>
void CrossCoreWaitFlag(uint16_t flagId, Where where = Where::Here()) {
  sync::WantsFlag(flagId, "CrossCoreWaitFlag", where);
  if constexpr (modeId == 2)
    policy::Fail("CrossCoreWaitFlag",
                 "mode 2 is between a cube core and its vector cores; a kernel here runs on one kind", where);
  TWIN_TELL(WaitCrossCore(flagId, policy::At("CrossCoreWaitFlag", where)));
  policy::Waits(where);
  twin::ascendc::WaitCrossCore(flagId);
}

inline int64_t GetBlockIdx() { return twin::ascendc::ThisCore().block; }
inline int64_t GetBlockNum() { return twin::ascendc::ThisCore().blocks; }
inline int64_t GetSubBlockIdx() { return 0; }
inline int64_t GetSubBlockNum() { return 1; }
inline int64_t GetTaskRation() { return 1; }
// A clock that ticks 50 million times per second.
inline int64_t GetSystemCycle() {
  constexpr int64_t kNanosecondsPerCycle = 20;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count() / kNanosecondsPerCycle;
}
// What precedes the user's part belongs to the system, and is empty here.
inline GM_ADDR GetUserWorkspace(GM_ADDR workspace) { return workspace; }
inline void SetSysWorkspace(GM_ADDR) {}
inline GM_ADDR GetSysWorkSpacePtr() { return nullptr; }

// The built-ins of these names: variables, so that a kernel may define its own.
struct BuiltInBlockIdx {
  operator int64_t() const { return GetBlockIdx(); }
};
struct BuiltInBlockNum {
  operator int64_t() const { return GetBlockNum(); }
};
inline int64_t get_block_idx() { return GetBlockIdx(); }
inline int64_t get_block_num() { return GetBlockNum(); }

// A host's caches are coherent.
template <typename T, CacheLine entire, DcciDst dst = DcciDst::CACHELINE_ALL>
void DataCacheCleanAndInvalid(const GlobalTensor<T>&) {}

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC

using AscendC::get_block_idx;
using AscendC::get_block_num;
using AscendC::pipe_barrier;
using AscendC::set_flag;
using AscendC::wait_flag;
[[maybe_unused]] static constexpr AscendC::BuiltInBlockIdx block_idx;
[[maybe_unused]] static constexpr AscendC::BuiltInBlockNum block_num;
