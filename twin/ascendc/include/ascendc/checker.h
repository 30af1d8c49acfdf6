// What the checked build tracks per block: which bytes of its buffer were written, which pipe touches what
// and after which flags, and which pipe owns which buffer. Each violation throws with function, buffer and
// line.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ascendc/core.h"
#include "ascendc/global_access.h"

namespace twin::ascendc {

constexpr int kPipes = 8;  // PIPE_S … PIPE_FIX; PIPE_ALL is none

// Where 32 bytes of a cube core's memory come from: a row and a first column of a matrix that one copy brought in.
// Transposed within its fractal, consecutive elements are consecutive rows instead.
struct Origin {
  uint32_t copy = 0;  // 0: unknown, or filled with a constant
  uint32_t row = 0, column = 0;
  bool transposed = false;
};
// An operand of a product in L0A or L0B: fractals of 16 lanes of 32 bytes, along the lanes and along k.
struct FractalMatrix {
  const uint8_t* begin;
  const char* name;
  uint32_t lanes;  // that count: rows of A, columns of B
  uint32_t along_lanes, along_k;
  uint32_t lane_stride, k_stride;  // in fractals
};

class TWIN_EXPORT Checker {
 public:
  void Begin(const Core& core);
  void Reset();  // the next buffers are of a new layout
  // Flags that were set and never waited for, tensors never freed, races with blocks that have ended.
  void End();

  // `count` consecutive buffers of `bytes` each.
  void AddBuffers(const uint8_t* begin, uint32_t bytes, uint32_t count, const char* kind, Place place);

  // Accesses to local memory: within their buffer, written before they are read, after the right flags.
  void Read(pipe_t pipe, const void* begin, uint64_t bytes, Place place);
  void Write(pipe_t pipe, const void* begin, uint64_t bytes, Place place);
  // From now on the contents are unspecified.
  void Forget(const void* begin, uint64_t bytes);
  void Aligned(const void* address, uint64_t alignment, Place place) const;

  void Bounds(const void* begin, uint64_t bytes, const void* from, const void* to, Place place) const;
  void ReadGlobal(pipe_t pipe, const void* begin, uint64_t bytes, const void* from, const void* to, Place place);
  void WriteGlobal(pipe_t pipe, const void* begin, uint64_t bytes, const void* from, const void* to, Place place);

  void SetFlag(pipe_t source, pipe_t target, int id, Place place);
  void WaitFlag(pipe_t source, pipe_t target, int id, Place place);
  void Barrier(pipe_t pipe, Place place);

  // The cube core: what the 32-byte pieces of L1, L0A and L0B hold.
  uint32_t NewCopy() { return ++copies_; }
  void SetOrigin(const void* piece, const Origin& origin);
  Origin OriginOf(const void* piece) const;
  // Whether the fractals of an operand form one matrix, and the two of a product have the same k.
  void Multiplied(const FractalMatrix& a, const FractalMatrix& b, uint32_t c0, Place place) const;
  // A product into L0C and the fixpipe order themselves by unit flags (2: stays open, 3: closes; 0: none).
  void UnitFlagOfProduct(const void* begin, uint64_t bytes, int flag, Place place);
  void UnitFlagOfFixpipe(const void* begin, uint64_t bytes, int flag, Place place);
  // The next product accumulates into so few fractals that the one before must have ended.
  void AfterProduct(const void* begin, Place place) const;

  // Cross-core flags: what `pipe` has done is complete for those who wait.
  void SetCrossCore(pipe_t pipe, uint8_t mode, int id, Place place);
  void WaitCrossCore(int id, Place place);
  // Publishes what this block has done under a key; learns what others have.
  void Release(uint64_t key, uint64_t round);
  void Acquire(uint64_t key, uint64_t round, uint32_t members);

  // A queue's buffer cycles through: allocated (its last reader is done), enqueued, dequeued, freed.
  void Alloc(const void* buffer, uint32_t bytes, pipe_t producer, Place place);
  void EnQue(const void* buffer, pipe_t producer, Place place);
  void DeQue(const void* buffer, pipe_t consumer, Place place);
  void Free(const void* buffer, pipe_t consumer, Place place);

 private:
  using Clock = std::vector<uint32_t>;  // one time per pipe
  enum class State : uint8_t { kFree, kAllocated, kQueued, kTaken, kPlain };
  struct Buffer {
    uint32_t begin = 0, bytes = 0;
    std::string name;
    State state = State::kPlain;
    Clock handed;  // what the last pipe to pass it on had done
    Place place{};
    Clock read, written;                // when each pipe last did
    Clock scalar_read, scalar_written;  // what the scalar unit had seen when it last did
  };
  struct Touch {
    uint32_t time = 0, call = 0;
    const char* function = nullptr;
    int line = 0;
  };
  struct Granule {  // 4 bytes
    Touch write, reads[kPipes];
    Touch vector_read;  // the vector unit's first one that is not known to be complete
    uint8_t writer = 0;
    uint32_t epoch = 0;  // of the buffer layout in which it was touched; older ones count as untouched
  };
  struct GlobalWrite {
    const uint8_t *begin, *end;
    pipe_t pipe;  // MTE3 or FIX
    uint32_t time;
    Place place;
  };
  struct Unit {  // a part of L0C under a unit flag
    uint32_t begin, end;
    bool closed;
    int line;
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
  bool Waited(pipe_t pipe, int other, const Touch& touch, const Buffer& buffer, Place place);
  void WaitForTensor(pipe_t pipe, const Buffer& buffer, bool write);
  void RecordTouch(pipe_t pipe, Buffer& buffer, bool write) const;
  Clock Snapshot(pipe_t pipe) const;
  void Join(pipe_t pipe, const Clock& clock);
  Granule& GranuleAt(uint32_t index);
  void FindUnits(const void* begin, uint64_t bytes, std::vector<Unit*>* found);
  void CheckFractal(const FractalMatrix& matrix, uint32_t lane, uint32_t k, Place place) const;
  Origin FractalOrigin(const FractalMatrix& matrix, uint32_t lane, uint32_t k) const;
  void Touched(const void* begin, uint64_t bytes, const void* from, AccessKind kind, Place place);
  void FindRaces();
  [[noreturn]] void Complain(Place place, const std::string& text) const;

  const Core* core_ = nullptr;
  std::vector<Buffer> buffers_;
  std::vector<uint8_t> written_;
  std::vector<Granule> granules_;
  uint32_t epoch_ = 0;
  bool reset_ = false, cube_used_ = false;
  std::vector<Origin> origins_;  // of L1, L0A and L0B
  uint32_t copies_ = 0;
  std::vector<Unit> units_;
  std::vector<GlobalWrite> global_writes_;
  Clock now_, seen_[kPipes];
  Flag flags_[kPipes][kPipes][kEventIds];
  Flag cross_core_[kCrossCoreFlags];  // clock and place of this block's last set
  std::vector<GlobalAccess> touched_;
  uint32_t segment_ = 0;
  std::shared_ptr<const BlockClock> blocks_seen_;
};

}  // namespace twin::ascendc
