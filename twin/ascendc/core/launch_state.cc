// Cross-core flags, deadlock detection, and the clocks that blocks exchange when they synchronise.
#include "twin/ascendc/core/launch_state.h"

#include <algorithm>
#include <atomic>

namespace twin::ascendc {
namespace {

uint32_t Now(const uint32_t* counter) { return std::atomic_ref(*const_cast<uint32_t*>(counter)).load(); }

void Join(BlockClock* into, const BlockClock& from) {
  into->resize(std::max(into->size(), from.size()));
  for (size_t i = 0; i < from.size(); ++i) (*into)[i] = std::max((*into)[i], from[i]);
}

}  // namespace

LaunchState& LaunchState::Of(const Core& core) {
  std::atomic_ref place(core.shared->state);
  LaunchState* found = place.load();
  if (found != nullptr) return *found;
  auto made = std::make_unique<LaunchState>();
  if (place.compare_exchange_strong(found, made.get())) return *made.release();
  return *found;
}

void LaunchState::Delete(LaunchShared* shared) { delete std::atomic_ref(shared->state).exchange(nullptr); }

const uint32_t* LaunchState::CrossCoreRounds(uint32_t group, uint32_t members, uint16_t flag) {
  std::lock_guard lock(mutex_);
  CrossCoreFlag& found = flags_[{group, flag}];
  found.sets.resize(members);
  return &found.rounds;
}

void LaunchState::SetCrossCore(uint32_t group, uint32_t member, uint32_t members, uint16_t flag) {
  std::lock_guard lock(mutex_);
  CrossCoreFlag& found = flags_[{group, flag}];
  found.sets.resize(members);
  ++found.sets[member];
  std::atomic_ref(found.rounds).store(*std::min_element(found.sets.begin(), found.sets.end()));
}

bool LaunchState::Wait::Over() const {
  const uint32_t now = Now(counter);
  return exactly ? now == wanted : static_cast<int32_t>(now - wanted) >= 0;
}

void LaunchState::AddWait(const Wait* wait) {
  std::lock_guard lock(mutex_);
  waits_.push_back(wait);
}

void LaunchState::RemoveWait(const Wait* wait) {
  std::lock_guard lock(mutex_);
  std::erase(waits_, wait);
}

bool LaunchState::Hopeless(const LaunchShared& shared, uint32_t blocks) {
  std::lock_guard lock(mutex_);
  if (waits_.size() + Now(&shared.ended) < blocks) return false;
  return std::none_of(waits_.begin(), waits_.end(), [](const Wait* wait) { return wait->Over(); });
}

void LaunchState::Release(uint64_t key, uint64_t round, const BlockClock& clock) {
  std::lock_guard lock(mutex_);
  Join(&released_[{key, round}].clock, clock);
}

void LaunchState::Acquire(uint64_t key, uint64_t round, uint32_t members, BlockClock* clock) {
  std::lock_guard lock(mutex_);
  const auto found = released_.find({key, round});
  if (found == released_.end()) return;
  Join(clock, found->second.clock);
  if (++found->second.taken == members) released_.erase(found);
}

}  // namespace twin::ascendc
