// Between blocks: cross-core flags, and unordered accesses to the same bytes of global memory.
#include <algorithm>
#include <mutex>
#include <tuple>

#include "twin/ascendc/core/launch_state.h"
#include "twin/ascendc/include/ascendc/checker.h"

namespace twin::ascendc {
namespace {

constexpr size_t kLookedBack = 4;                 // kernels cycle over a few tensors
constexpr size_t kMostTouched = size_t{1} << 16;  // per block; later accesses are not checked

bool SameBut(const GlobalAccess& a, const GlobalAccess& b) {  // except for the bytes
  return a.kind == b.kind && a.segment == b.segment && a.place.line == b.place.line && a.place.file == b.place.file &&
         a.tensor == b.tensor;
}

// Merges two adjacent or overlapping ranges.
bool Merged(GlobalAccess* into, const GlobalAccess& next) {
  if (!SameBut(*into, next) || next.begin > into->end || next.end < into->begin) return false;
  into->begin = std::min(into->begin, next.begin);
  into->end = std::max(into->end, next.end);
  return true;
}

const char* VerbOf(AccessKind kind) {
  return kind == AccessKind::kRead ? "reads" : (kind == AccessKind::kWrite ? "writes" : "adds atomically to");
}

}  // namespace

void Checker::Touched(const void* begin, uint64_t bytes, const void* from, AccessKind kind, Place place) {
  if (core_->blocks == 1) return;
  const auto first = reinterpret_cast<uint64_t>(begin);
  GlobalAccess next{first,        first + bytes, reinterpret_cast<uint64_t>(from), kind, core_->block, segment_,
                    blocks_seen_, place};
  const size_t looked = std::min(touched_.size(), kLookedBack);
  for (size_t back = 1; back <= looked; ++back) {
    if (Merged(&touched_[touched_.size() - back], next)) return;
  }
  if (touched_.size() < kMostTouched) touched_.push_back(std::move(next));
}

void Checker::Release(uint64_t key, uint64_t round) {
  BlockClock clock = blocks_seen_ == nullptr ? BlockClock() : *blocks_seen_;
  clock.resize(core_->blocks);
  clock[core_->block] = ++segment_;
  LaunchState::Of(*core_).Release(key, round, clock);
}

void Checker::Acquire(uint64_t key, uint64_t round, uint32_t members) {
  auto clock = std::make_shared<BlockClock>(blocks_seen_ == nullptr ? BlockClock() : *blocks_seen_);
  clock->resize(core_->blocks);
  LaunchState::Of(*core_).Acquire(key, round, members, clock.get());
  blocks_seen_ = std::move(clock);
  ++segment_;
}

void Checker::SetCrossCore(pipe_t pipe, uint8_t mode, int id, Place place) {
  if (mode == 1 && core_->blocks % 2 != 0)
    Complain(place, "mode 1 is for the two vector cores of an AI core, but " + std::to_string(core_->blocks) +
                        " blocks do not form pairs");
  if (core_->cross_core[id].sets - core_->cross_core[id].waits == kMostCrossCoreSets)
    Complain(place, "flag " + std::to_string(id) + " was set more than 16 times without a wait");
  if (pipe == PIPE_S || pipe == PIPE_ALL) Complain(place, "the pipe cannot be PIPE_S or PIPE_ALL");
  for (const GlobalWrite& write : global_writes_) {
    if (pipe == write.pipe || write.time <= seen_[pipe][write.pipe]) continue;
    const std::string writer = write.pipe == PIPE_FIX ? "PIPE_FIX" : "PIPE_MTE3";
    Complain(place, "the flag is set while " + writer + " may still write global memory (" + write.place.function +
                        ", line " + std::to_string(write.place.line) + "); set it on " + writer);
  }
  cross_core_[id] = {true, Snapshot(pipe), place};
}

void Checker::WaitCrossCore(int id, Place place) {
  if (core_->cross_core[id].sets == core_->cross_core[id].waits)
    Complain(place, "this block has not set flag " + std::to_string(id) +
                        ": the whole group sets it, then waits; the device would wait forever");
  for (int pipe = 0; pipe < kPipes; ++pipe) Join(static_cast<pipe_t>(pipe), cross_core_[id].clock);
}

void Checker::FindRaces() {
  if (touched_.empty()) return;
  std::stable_sort(touched_.begin(), touched_.end(), [](const GlobalAccess& a, const GlobalAccess& b) {
    return std::tie(a.segment, a.kind, a.place.line, a.begin) < std::tie(b.segment, b.kind, b.place.line, b.begin);
  });
  LaunchState& state = LaunchState::Of(*core_);
  std::lock_guard lock(state.mutex());
  for (size_t i = 0; i < touched_.size();) {
    GlobalAccess mine = touched_[i];
    for (++i; i < touched_.size() && Merged(&mine, touched_[i]);) ++i;
    const auto other = state.races().Add(mine);
    if (!other) continue;
    const uint64_t begin = std::max(mine.begin, other->begin), end = std::min(mine.end, other->end);
    Complain(mine.place, "block " + std::to_string(mine.block) + " " + VerbOf(mine.kind) + " bytes " +
                             std::to_string(begin - mine.tensor) + " to " + std::to_string(end - mine.tensor) +
                             " of global memory, which block " + std::to_string(other->block) + " " +
                             VerbOf(other->kind) + " (" + other->place.function + ", line " +
                             std::to_string(other->place.line) +
                             "), and nothing orders the two: SyncAll, a flag between cores or IBSet and IBWait");
  }
}

}  // namespace twin::ascendc
