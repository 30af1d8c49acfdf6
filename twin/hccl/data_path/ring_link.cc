// The ring: counters that only increase; the position in the ring is the counter modulo the capacity.
#include <algorithm>

#include "twin/hccl/data_path/links.h"

namespace twin {
namespace {

uint64_t NextBoundary(uint64_t position) { return (position + kCacheLine - 1) / kCacheLine * kCacheLine; }

}  // namespace

RingLink::RingLink(const Board& board, uint32_t self, uint32_t peer)
    : out_ends_(board.ring_ends(self, peer)),
      in_ends_(board.ring_ends(peer, self)),
      out_bytes_(board.ring_bytes(self, peer)),
      in_bytes_(board.ring_bytes(peer, self)),
      capacity_(board.ring_capacity()),
      pushed_(out_ends_.pushed.load(std::memory_order_relaxed)),
      popped_(in_ends_.popped.load(std::memory_order_relaxed)) {}

std::span<std::byte> RingLink::Reserve() {
  const uint64_t used = pushed_ - out_ends_.popped.load(std::memory_order_acquire);
  // A message's end may be rounded up past a full ring: then `used` exceeds the capacity for a while.
  if (used >= capacity_) return {};
  const size_t position = pushed_ % capacity_;
  return {out_bytes_ + position, std::min(capacity_ - used, capacity_ - position)};
}

void RingLink::Push(size_t bytes) {
  pushed_ += bytes;
  out_ends_.pushed.store(pushed_, std::memory_order_release);
}

std::span<const std::byte> RingLink::Peek() {
  const uint64_t pushed = in_ends_.pushed.load(std::memory_order_acquire);
  // This side may have rounded a message's end up before the sender did.
  if (pushed <= popped_) return {};
  const size_t position = popped_ % capacity_;
  return {in_bytes_ + position, std::min<size_t>(pushed - popped_, capacity_ - position)};
}

void RingLink::Pop(size_t bytes) {
  popped_ += bytes;
  in_ends_.popped.store(popped_, std::memory_order_release);
}

void RingLink::EndOutgoing() { Push(NextBoundary(pushed_) - pushed_); }

void RingLink::EndIncoming() { Pop(NextBoundary(popped_) - popped_); }

}  // namespace twin
