// For the checked build: one access to global memory by a block, and what the block had seen of the others.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace twin::ascendc {

struct Place {
  const char* function;
  const char* file;
  int line;
  uint32_t call = 0;
};

// Per block, how many of its segments are known to be complete. Segments are delimited by a block's
// synchronisations.
using BlockClock = std::vector<uint32_t>;

enum class AccessKind : uint8_t { kRead, kWrite, kAdd, kMax, kMin };
constexpr int kAccessKinds = 5;

struct GlobalAccess {
  uint64_t begin, end, tensor;  // addresses; `tensor` is where the GlobalTensor began
  AccessKind kind;
  uint32_t block, segment;
  std::shared_ptr<const BlockClock> seen;  // null: nothing of any block
  Place place;
};

}  // namespace twin::ascendc
