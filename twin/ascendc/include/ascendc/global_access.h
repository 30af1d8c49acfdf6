// For the checked build: one touch of global memory by a block, and what the block had seen of the others.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace twin::ascendc {

struct Place {
  const char* function;
  const char* file;
  int line;
};

// Of each block, how many of its segments are known to be done. A block's segments lie between its
// synchronisations.
using BlockClock = std::vector<uint32_t>;

enum class AccessKind : uint8_t { kRead, kWrite, kAdd, kMax, kMin };
constexpr int kAccessKinds = 5;

struct GlobalAccess {
  uint64_t begin, end, tensor;  // addresses; `tensor` is where the GlobalTensor began
  AccessKind kind;
  uint32_t block, segment;
  std::shared_ptr<const BlockClock> seen;  // null: of no block anything
  Place place;
};

}  // namespace twin::ascendc
