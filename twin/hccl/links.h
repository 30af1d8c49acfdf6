// A link: two byte streams, one each way, between this member and one other. Room is reserved and filled in
// place, and what came in is read in place, so that no copy is made but the one that moves the bytes. Never
// blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "twin/hccl/board.h"

namespace twin {

class Link {
 public:
  virtual ~Link() = default;

  // Room for outgoing bytes, contiguous, empty when there is none now; then how many of them were filled.
  virtual std::span<std::byte> Reserve() = 0;
  virtual void Push(size_t bytes) = 0;
  // Incoming bytes, contiguous, empty when there are none now; then how many of them are used up.
  virtual std::span<const std::byte> Peek() = 0;
  virtual void Pop(size_t bytes) = 0;

  // After the last byte of a message, on both sides: the next one starts at a boundary where no element is
  // cut in two.
  virtual void EndOutgoing() {}
  virtual void EndIncoming() {}

  // Name the operations whose bytes follow, for links that check them.
  virtual void SetOutgoingTag(uint64_t tag) {}
  virtual void SetIncomingTag(uint64_t tag) {}
  // Moves what the operating system holds; false when nothing moved.
  virtual bool Progress() { return false; }
  // True when every pushed byte has left this process.
  virtual bool flushed() const { return true; }
  // True when the other side can send no more.
  virtual bool at_end() const { return true; }
};

// A pair of rings on the board.
class RingLink : public Link {
 public:
  RingLink(const Board& board, uint32_t self, uint32_t peer);

  std::span<std::byte> Reserve() override;
  void Push(size_t bytes) override;
  std::span<const std::byte> Peek() override;
  void Pop(size_t bytes) override;
  void EndOutgoing() override;
  void EndIncoming() override;

 private:
  RingEnds& out_ends_;
  RingEnds& in_ends_;
  std::byte* out_bytes_;
  const std::byte* in_bytes_;
  size_t capacity_;
  uint64_t pushed_;  // own copies of the ends that only this side moves
  uint64_t popped_;
};

}  // namespace twin
