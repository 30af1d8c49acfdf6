// Packing is plain copying: all hosts of a group run the same library.
#include "twin/hccl/data_path/mirror.h"

#include <sys/mman.h>

#include <cstring>
#include <new>

#include "twin/hccl/failure.h"

namespace twin {

MirrorMemory::MirrorMemory(size_t bytes) : bytes_(bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<std::byte*>(memory);
}

MirrorMemory::~MirrorMemory() { munmap(memory_, bytes_); }

std::vector<std::byte> PackPost(const Board& board, uint32_t rank, uint32_t ranks, uint64_t sequence) {
  const size_t array_bytes = ranks * sizeof(uint64_t);
  std::vector<std::byte> content(sizeof(Post) + 3 * array_bytes);
  std::byte* at = content.data();
  std::memcpy(at, &board.slot(rank, sequence).post, sizeof(Post));
  at += sizeof(Post);
  for (const uint64_t* array :
       {board.send_counts(rank, sequence), board.send_offsets(rank, sequence), board.recv_counts(rank, sequence)}) {
    std::memcpy(at, array, array_bytes);
    at += array_bytes;
  }
  return content;
}

void UnpackPost(const Board& mirror, uint32_t rank, uint32_t ranks, uint64_t sequence,
                std::span<const std::byte> content) {
  const size_t array_bytes = ranks * sizeof(uint64_t);
  if (content.size() != sizeof(Post) + 3 * array_bytes)
    throw HcclFailure(HCCL_E_TCP_TRANSFER, "the post of rank " + std::to_string(rank) + " has " +
                                               std::to_string(content.size()) + " bytes; wanted " +
                                               std::to_string(sizeof(Post) + 3 * array_bytes));
  const std::byte* at = content.data();
  Slot& slot = mirror.slot(rank, sequence);
  std::memcpy(&slot.post, at, sizeof(Post));
  at += sizeof(Post);
  for (uint64_t* array :
       {mirror.send_counts(rank, sequence), mirror.send_offsets(rank, sequence), mirror.recv_counts(rank, sequence)}) {
    std::memcpy(array, at, array_bytes);
    at += array_bytes;
  }
  slot.sequence.store(sequence, std::memory_order_release);
}

void UnpackOffer(OfferSlot& slot, uint64_t sequence, std::span<const std::byte> content) {
  if (content.size() != sizeof(Offer))
    throw HcclFailure(HCCL_E_TCP_TRANSFER, "an offer has " + std::to_string(content.size()) + " bytes; wanted " +
                                               std::to_string(sizeof(Offer)));
  std::memcpy(&slot.offer, content.data(), sizeof(Offer));
  slot.sequence.store(sequence, std::memory_order_release);
}

}  // namespace twin
