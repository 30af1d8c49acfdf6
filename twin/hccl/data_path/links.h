// A link: two byte streams, one per direction, between this member and one other. Space is reserved and
// filled in place, and received data is read in place, so the only copy is the one that moves the bytes.
// Never blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "twin/hccl/data_path/board.h"

namespace twin {

class Link {
 public:
  virtual ~Link() = default;

  // Contiguous space for outgoing bytes, empty if there is none now; then how many of them were filled.
  virtual std::span<std::byte> Reserve() = 0;
  virtual void Push(size_t bytes) = 0;
  // Contiguous incoming bytes, empty if there are none now; then how many of them were consumed.
  virtual std::span<const std::byte> Peek() = 0;
  virtual void Pop(size_t bytes) = 0;

  // After the last byte of a message, on both sides: the next message starts at a boundary that splits no
  // element.
  virtual void EndOutgoing() {}
  virtual void EndIncoming() {}

  // Set the operations whose bytes follow, for links that check them.
  virtual void SetOutgoingTag(uint64_t tag) {}
  virtual void SetIncomingTag(uint64_t tag) {}
  // Moves bytes to and from the operating system; false if nothing moved.
  virtual bool Progress() { return false; }
  // True once every pushed byte has left this process.
  virtual bool flushed() const { return true; }
  // True if the other side cannot send any more.
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
  uint64_t pushed_;  // local copies of the counters that only this side advances
  uint64_t popped_;
};

}  // namespace twin
