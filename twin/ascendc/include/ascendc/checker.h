// What the checked build sees of a block: which bytes of its buffer were written, which pipe touches what and
// after which flags, and who holds which buffer. Each rule that is broken throws with function, buffer and
// line.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ascendc/core.h"
#include "ascendc/global_access.h"

namespace twin::ascendc {

constexpr int kPipes = 6;  // PIPE_S … PIPE_MTE3

class TWIN_EXPORT Checker {
 public:
  void Begin(const Core& core);
  // Flags that were set and never waited for, tensors never freed, races with blocks that have ended.
  void End();

  // `count` buffers of `bytes` each, one after the other.
  void AddBuffers(const uint8_t* begin, uint32_t bytes, uint32_t count, const char* kind, Place place);

  // Who touches local memory: in bounds of its buffer, written before it is read, behind the right flags.
  void Read(pipe_t pipe, const void* begin, uint64_t bytes, Place place);
  void Write(pipe_t pipe, const void* begin, uint64_t bytes, Place place);
  // What it holds from now on is not specified.
  void Forget(const void* begin, uint64_t bytes);
  void Aligned(const void* address, uint64_t alignment, Place place) const;

  void Bounds(const void* begin, uint64_t bytes, const void* from, const void* to, Place place) const;
  void ReadGlobal(pipe_t pipe, const void* begin, uint64_t bytes, const void* from, const void* to,
                  Place place);
  void WriteGlobal(pipe_t pipe, const void* begin, uint64_t bytes, const void* from, const void* to,
                   Place place);

  void SetFlag(pipe_t source, pipe_t target, int id, Place place);
  void WaitFlag(pipe_t source, pipe_t target, int id, Place place);
  void Barrier(pipe_t pipe);

  // Flags between cores: what `pipe` has done is done for those who wait.
  void SetCrossCore(pipe_t pipe, uint8_t mode, int id, Place place);
  void WaitCrossCore(int id, Place place);
  // What this block has done, published under a key; and what others have, learned.
  void Release(uint64_t key, uint64_t round);
  void Acquire(uint64_t key, uint64_t round, uint32_t members);

  // A queue's buffer goes round: allocated (its last reader has ended), queued, taken, freed.
  void Alloc(const void* buffer, uint32_t bytes, pipe_t producer, Place place);
  void EnQue(const void* buffer, pipe_t producer, Place place);
  void DeQue(const void* buffer, pipe_t consumer, Place place);
  void Free(const void* buffer, pipe_t consumer, Place place);

 private:
  using Clock = std::vector<uint32_t>;  // a time a pipe
  enum class State : uint8_t { kFree, kAllocated, kQueued, kTaken, kPlain };
  struct Buffer {
    uint32_t begin = 0, bytes = 0;
    std::string name;
    State state = State::kPlain;
    Clock handed;  // what the pipe that last gave it on had done
    Place place{};
  };
  struct Touch {
    uint32_t time = 0;
    const char* function = nullptr;
    int line = 0;
  };
  struct Granule {  // 4 bytes
    Touch write, reads[kPipes];
    uint8_t writer = 0;
    uint32_t epoch = 0;  // of the buffers it was touched in; older ones count as untouched
  };
  struct GlobalWrite {
    const uint8_t *begin, *end;
    uint32_t time;
    Place place;
  };
  struct Flag {
    bool set = false;
    Clock clock;
    Place place{};
  };

  uint32_t Offset(const void* begin, uint64_t bytes, Place place) const;
  Buffer* Find(uint32_t offset);
  const Buffer* Find(uint32_t offset) const;
  Buffer& Held(const void* buffer, State wanted, const char* states, Place place);
  std::string Name(uint32_t offset) const;
  void Ordered(pipe_t pipe, uint32_t offset, uint64_t bytes, bool write, Place place);
  bool Waited(pipe_t pipe, int other, uint32_t time);
  Clock Snapshot(pipe_t pipe) const;
  void Join(pipe_t pipe, const Clock& clock);
  void Touched(const void* begin, uint64_t bytes, const void* from, AccessKind kind, Place place);
  void FindRaces();
  [[noreturn]] void Complain(Place place, const std::string& text) const;

  const Core* core_ = nullptr;
  std::vector<Buffer> buffers_;
  std::vector<uint8_t> written_;
  std::vector<Granule> granules_;
  uint32_t epoch_ = 0;
  std::vector<GlobalWrite> global_writes_;
  Clock now_, seen_[kPipes];
  Flag flags_[kPipes][kPipes][kEventIds];
  Flag cross_core_[kCrossCoreFlags];  // the clock and place of this block's last set
  std::vector<GlobalAccess> touched_;
  uint32_t segment_ = 0;
  std::shared_ptr<const BlockClock> blocks_seen_;
};

}  // namespace twin::ascendc
