// The board: memory shared by a group's members on one host. Members post their next operation there; it also
// carries small messages and holds the rings. Layout only: waiting and moving data are elsewhere.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "hccl/hccl.h"

namespace twin {

constexpr size_t kCacheLine = 64;
constexpr size_t kInlineBytes = 8192;  // a send buffer up to this size is posted inline with the call
constexpr uint64_t kNowhere = UINT64_MAX;

// A buffer as others may access it: through the owner's arena or, within the owner's process, by its address.
struct BufferRef {
  uint64_t address = 0;
  uint64_t arena_offset = kNowhere;
};

// What a member posts for a collective. The arrays and the inline payload follow it in the slot.
struct Post {
  uint32_t kind = 0;
  uint32_t type = 0;
  uint32_t reduction = 0;
  uint32_t root = 0;
  uint64_t count = 0;
  BufferRef send, recv;
  uint32_t is_inline = 0;        // the send buffer is in the slot
  uint32_t maps_all_arenas = 0;  // the poster can reach every member's device memory
};

// A member's post. Each member has two and alternates: posting number n + 2 requires having seen all posts of
// n + 1, so nobody reads number n any more.
struct alignas(kCacheLine) Slot {
  std::atomic<uint64_t> sequence;  // written last, read first
  Post post;
};

// One side of a message: what the sender has or what the receiver expects.
struct Offer {
  uint64_t count = 0;
  uint32_t type = 0;
  uint32_t maps_peer_arena = 0;
  BufferRef buffer;
};

struct alignas(kCacheLine) OfferSlot {
  std::atomic<uint64_t> sequence;
  Offer offer;
};

// All state of one ordered pair (sender, receiver). Offers alternate, as slots do.
struct alignas(kCacheLine) PairArea {
  OfferSlot send[2];
  OfferSlot receive[2];
  alignas(kCacheLine) std::atomic<uint64_t> sender_done;  // sequence of the last message it has finished with
  alignas(kCacheLine) std::atomic<uint64_t> receiver_done;

  // One side's offer of the message with this number. (Not `(sender ? send : receive)[…]`: GCC 12 takes the
  // first element of such an array under the undefined behaviour sanitizer.)
  OfferSlot& offer_of(bool sender, uint64_t sequence) {
    OfferSlot* const slots = sender ? send : receive;
    return slots[sequence % 2];
  }
};

// The ends of a single-producer, single-consumer byte queue; the counters only increase.
struct alignas(kCacheLine) RingEnds {
  std::atomic<uint64_t> pushed;
  alignas(kCacheLine) std::atomic<uint64_t> popped;
};

// Locates the parts of a board's memory. Zeroed memory is an empty board.
class Board {
 public:
  Board() = default;
  Board(std::byte* memory, uint32_t ranks) : memory_(memory), ranks_(ranks) {}

  Slot& slot(uint32_t rank, uint64_t sequence) const;
  // The slot's arrays, one entry per rank.
  uint64_t* send_counts(uint32_t rank, uint64_t sequence) const { return array(rank, sequence, 0); }
  uint64_t* send_offsets(uint32_t rank, uint64_t sequence) const { return array(rank, sequence, 1); }
  uint64_t* recv_counts(uint32_t rank, uint64_t sequence) const { return array(rank, sequence, 2); }
  std::byte* payload(uint32_t rank, uint64_t sequence) const;
  // The last collective this rank has finished with.
  std::atomic<uint64_t>& done(uint32_t rank) const;

  PairArea& pair(uint32_t from, uint32_t to) const;
  RingEnds& ring_ends(uint32_t from, uint32_t to) const;
  std::byte* ring_bytes(uint32_t from, uint32_t to) const;
  size_t ring_capacity() const;

 private:
  uint64_t* array(uint32_t rank, uint64_t sequence, size_t which) const;

  std::byte* memory_ = nullptr;
  uint32_t ranks_ = 0;
};

}  // namespace twin
