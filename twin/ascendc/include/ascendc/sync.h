// Order: mask registers, barriers and flags between the pipes of a core, barriers and flags between cores,
// and what a block knows of its launch.
#pragma once

#include <atomic>

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
    case HardEvent::FIX_M:
    case HardEvent::MAX:
      break;  // the cube's
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
void PipeBarrier() {
  TWIN_TELL(Barrier(pipe));
}

// All blocks of the launch meet.
template <bool isAIVOnly = true>
void SyncAll() {
  twin::ascendc::Core& core = twin::ascendc::ThisCore();
  TWIN_TELL(Barrier(PIPE_ALL));
  twin::ascendc::Increment(&core.shared->arrived);
  twin::ascendc::WaitFor("SyncAll", &core.shared->arrived, ++core.synced * core.blocks);
}
// The same by way of a workspace, which must hold 32 bytes a block.
template <bool isAIVOnly = true>
void SyncAll(const GlobalTensor<int32_t>& gmWorkspace, const LocalTensor<int32_t>& ubWorkspace,
             const int32_t usedCores = 0, Where where = Where::Here()) {
  const uint32_t blocks = twin::ascendc::ThisCore().blocks;
  policy::Wants(usedCores == 0 || static_cast<uint32_t>(usedCores) == blocks,
                "usedCores must be 0 or the number of blocks", "SyncAll", where);
  policy::Wants(gmWorkspace.GetSize() == 0 || gmWorkspace.GetSize() >= blocks * 8,
                "the workspace needs 32 bytes a block", "SyncAll", where);
  SyncAll<isAIVOnly>();
}

// A flag of a block in global memory: set by its owner once it is clear, cleared by the one who waited for
// it.
namespace sync {
inline uint32_t* BlockFlag(const GlobalTensor<int32_t>& workspace, int32_t block, int32_t event) {
  return reinterpret_cast<uint32_t*>(workspace.data()) +
         (static_cast<uint64_t>(event) * twin::ascendc::ThisCore().blocks + static_cast<uint64_t>(block)) * 8;
}
}  // namespace sync
template <bool isAIVOnly = true>
void IBSet(const GlobalTensor<int32_t>& gmWorkspace, const LocalTensor<int32_t>& ubWorkspace,
           int32_t blockIdx, int32_t eventID) {
  TWIN_TELL(Barrier(PIPE_ALL));
  twin::ascendc::Increment(sync::BlockFlag(gmWorkspace, blockIdx, eventID));
}
template <bool isAIVOnly = true>
void IBWait(const GlobalTensor<int32_t>& gmWorkspace, const LocalTensor<int32_t>& ubWorkspace,
            int32_t blockIdx, int32_t eventID) {
  uint32_t* flag = sync::BlockFlag(gmWorkspace, blockIdx, eventID);
  twin::ascendc::WaitFor("IBWait", flag, 1);
  std::atomic_ref(*flag).fetch_sub(1);
  TWIN_TELL(Barrier(PIPE_ALL));
}

// Mode 0: a wait ends when all blocks have set the flag. The modes with the cube come with the cube.
template <uint8_t modeId, pipe_t pipe>
void CrossCoreSetFlag(uint16_t flagId, Where where = Where::Here()) {
  static_assert(modeId == 0, "the host has vector cores only: mode 0");
  if (flagId >= twin::ascendc::kCrossCoreFlags)
    policy::Fail("CrossCoreSetFlag", "flag ids are 0 to 15", where);
  twin::ascendc::Increment(&twin::ascendc::ThisCore().shared->cross_core[flagId]);
}
template <uint8_t modeId = 0, pipe_t pipe = PIPE_S>
void CrossCoreWaitFlag(uint16_t flagId, Where where = Where::Here()) {
  if (flagId >= twin::ascendc::kCrossCoreFlags)
    policy::Fail("CrossCoreWaitFlag", "flag ids are 0 to 15", where);
  twin::ascendc::Core& core = twin::ascendc::ThisCore();
  twin::ascendc::WaitFor("CrossCoreWaitFlag", &core.shared->cross_core[flagId],
                         ++core.cross_waited[flagId] * core.blocks);
  TWIN_TELL(Barrier(PIPE_ALL));
}

inline int64_t GetBlockIdx() { return twin::ascendc::ThisCore().block; }
inline int64_t GetBlockNum() { return twin::ascendc::ThisCore().blocks; }
inline int64_t GetSubBlockIdx() { return 0; }
inline int64_t GetSubBlockNum() { return 1; }
inline int64_t GetTaskRation() { return 1; }
inline GM_ADDR GetUserWorkspace(GM_ADDR workspace) { return workspace; }

// A host's caches agree by themselves.
template <typename T, CacheLine entire, DcciDst dst = DcciDst::CACHELINE_ALL>
void DataCacheCleanAndInvalid(const GlobalTensor<T>&) {}

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC

inline void pipe_barrier(pipe_t) { twin::ascendc::ThisCore(); }
#define block_idx (AscendC::GetBlockIdx())
#define block_num (AscendC::GetBlockNum())
