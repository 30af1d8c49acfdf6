// Pieces: rectangular pieces of a share's flat memory: which elements this rank owns, which it sums with its
// neighbours. Numbers only; flat_memory.h looks at a tensor through them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/shard.h"
#include "parallel/sharding/flat_layout.h"

namespace trireme {

struct Piece {
  int64_t offset = 0;  // of the first element, in the share
  Shape extent;
  Shape strides;

  int64_t elements() const { return Elements(extent); }
  bool operator==(const Piece&) const = default;
};

// The boxes that the rank owns (replica 0) of a shard whose memory begins `offset` elements into the share.
std::vector<Piece> OwnedPieces(const Shard& shard, int64_t offset);

// What `part` has of a box of its parameter's local tensor.
std::vector<Piece> PiecesInBox(const Shape& local_shape, const FlatPart& part, const Box& box);

// The same elements in fewer pieces: neighbours that are plain runs become one.
std::vector<Piece> MergeRuns(const std::vector<Piece>& pieces);

}  // namespace trireme
