// What the blocks of a launch share besides memory: who waits for what, cross-core flags, and for the checked
// build, what each block has seen of the others and which global memory they touched.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "twin/ascendc/core/races.h"
#include "twin/ascendc/include/ascendc/core.h"

namespace twin::ascendc {

class LaunchState {
 public:
  static LaunchState& Of(const Core& core);
  static void Delete(LaunchShared* shared);

  // The flag's counter of rounds in which all `members` of its group have set it.
  const uint32_t* CrossCoreRounds(uint32_t group, uint32_t members, uint16_t flag);
  void SetCrossCore(uint32_t group, uint32_t member, uint32_t members, uint16_t flag);

  // If all blocks wait or have ended and none of the waits is satisfied, none ever will be: a deadlock.
  struct Wait {
    const uint32_t* counter;
    uint32_t wanted;
    bool exactly;
    bool Over() const;
  };
  void AddWait(const Wait* wait);
  void RemoveWait(const Wait* wait);
  bool Hopeless(const LaunchShared& shared, uint32_t blocks);

  // Publishes a block's clock under a key, joined with what others have published under it.
  void Release(uint64_t key, uint64_t round, const BlockClock& clock);
  // Joins it into `clock`; the last of `members` to do so removes it.
  void Acquire(uint64_t key, uint64_t round, uint32_t members, BlockClock* clock);

  std::mutex& mutex() { return mutex_; }
  Races& races() { return races_; }  // under the mutex

 private:
  struct CrossCoreFlag {
    std::vector<uint32_t> sets;  // per member
    uint32_t rounds = 0;
  };
  struct Released {
    BlockClock clock;
    uint32_t taken = 0;
  };

  std::mutex mutex_;
  std::map<std::pair<uint32_t, uint16_t>, CrossCoreFlag> flags_;
  std::vector<const Wait*> waits_;
  std::map<std::pair<uint64_t, uint64_t>, Released> released_;
  Races races_;
};

}  // namespace twin::ascendc
