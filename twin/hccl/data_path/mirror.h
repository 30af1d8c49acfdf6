// What members on other hosts have posted and offered, in private memory laid out like a board, so that the
// rest of the data path reads it like the shared one. Also the wire format of posts and offers.
#pragma once

#include <span>
#include <vector>

#include "twin/hccl/data_path/board.h"
#include "twin/hccl/data_path/tcp_link.h"

namespace twin {

// Memory for a private board; untouched pages cost nothing.
class MirrorMemory {
 public:
  explicit MirrorMemory(size_t bytes);
  ~MirrorMemory();
  MirrorMemory(const MirrorMemory&) = delete;
  MirrorMemory& operator=(const MirrorMemory&) = delete;
  std::byte* memory() const { return memory_; }

 private:
  std::byte* memory_;
  size_t bytes_;
};

// A rank's post with its arrays, for the wire; and back onto a mirror.
std::vector<std::byte> PackPost(const Board& board, uint32_t rank, uint32_t ranks, uint64_t sequence);
void UnpackPost(const Board& mirror, uint32_t rank, uint32_t ranks, uint64_t sequence,
                std::span<const std::byte> content);
void UnpackOffer(OfferSlot& slot, uint64_t sequence, std::span<const std::byte> content);

}  // namespace twin
