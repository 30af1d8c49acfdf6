// Offsets into the board. Pages that no pair uses are never touched, so a large board costs only address
// space.
#include "twin/hccl/data_path/board.h"

#include "twin/common/rounding.h"
#include "twin/hccl/membership/group.h"

namespace twin {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kArrays = 3;

size_t ArraysBytes(uint32_t ranks) { return RoundUp(kArrays * ranks * sizeof(uint64_t), kCacheLine); }
size_t SlotBytes(uint32_t ranks) { return RoundUp(sizeof(Slot) + ArraysBytes(ranks) + kInlineBytes, kPage); }
size_t DoneStart(uint32_t ranks) { return 2 * ranks * SlotBytes(ranks); }
size_t PairsStart(uint32_t ranks) { return RoundUp(DoneStart(ranks) + ranks * kCacheLine, kPage); }
size_t PairCount(uint32_t ranks) { return static_cast<size_t>(ranks) * ranks; }
size_t EndsStart(uint32_t ranks) { return RoundUp(PairsStart(ranks) + PairCount(ranks) * sizeof(PairArea), kPage); }
size_t RingsStart(uint32_t ranks) { return RoundUp(EndsStart(ranks) + PairCount(ranks) * sizeof(RingEnds), kPage); }

// Large enough to keep both ends busy, small enough that pushed data is still in cache when it is popped.
size_t RingCapacity(uint32_t ranks) {
  if (ranks <= 16) return 256 * 1024;
  return ranks <= 64 ? 64 * 1024 : 16 * 1024;
}

}  // namespace

size_t BoardBytes(uint32_t size) { return RingsStart(size) + PairCount(size) * RingCapacity(size); }

Slot& Board::slot(uint32_t rank, uint64_t sequence) const {
  return *reinterpret_cast<Slot*>(memory_ + (2 * size_t{rank} + sequence % 2) * SlotBytes(ranks_));
}

uint64_t* Board::array(uint32_t rank, uint64_t sequence, size_t which) const {
  return reinterpret_cast<uint64_t*>(reinterpret_cast<std::byte*>(&slot(rank, sequence)) + sizeof(Slot)) +
         which * ranks_;
}

std::byte* Board::payload(uint32_t rank, uint64_t sequence) const {
  return reinterpret_cast<std::byte*>(&slot(rank, sequence)) + sizeof(Slot) + ArraysBytes(ranks_);
}

std::atomic<uint64_t>& Board::done(uint32_t rank) const {
  return *reinterpret_cast<std::atomic<uint64_t>*>(memory_ + DoneStart(ranks_) + rank * kCacheLine);
}

PairArea& Board::pair(uint32_t from, uint32_t to) const {
  const size_t index = size_t{from} * ranks_ + to;
  return *reinterpret_cast<PairArea*>(memory_ + PairsStart(ranks_) + index * sizeof(PairArea));
}

RingEnds& Board::ring_ends(uint32_t from, uint32_t to) const {
  const size_t index = size_t{from} * ranks_ + to;
  return *reinterpret_cast<RingEnds*>(memory_ + EndsStart(ranks_) + index * sizeof(RingEnds));
}

std::byte* Board::ring_bytes(uint32_t from, uint32_t to) const {
  const size_t index = size_t{from} * ranks_ + to;
  return memory_ + RingsStart(ranks_) + index * RingCapacity(ranks_);
}

size_t Board::ring_capacity() const { return RingCapacity(ranks_); }

}  // namespace twin
