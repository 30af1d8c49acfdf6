// Pieces: rectangular pieces of a shard's flat memory: which elements this rank owns, and which it sums with
// adjacent ranks. Integers only; flat_memory.h creates views from them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/shard.h"
#include "parallel/sharding/flat_layout.h"

namespace trireme {

struct Piece {
  int64_t offset = 0;  // of the first element, within the shard
  Shape extent;
  Shape strides;

  int64_t elements() const { return Elements(extent); }
  bool operator==(const Piece&) const = default;
};

// The boxes that the rank owns (replica 0) of a shard whose memory starts `offset` elements into the flat buffer.
std::vector<Piece> OwnedPieces(const Shard& shard, int64_t offset);

// The elements of `part` within a box of its parameter's local tensor.
std::vector<Piece> PiecesInBox(const Shape& local_shape, const FlatPart& part, const Box& box);

// The same elements as one run if the pieces, which do not overlap, fill a span of memory together: experts'
// gates and ups, say, which are interleaved and strided each. Otherwise the pieces.
std::vector<Piece> JoinIfDense(std::vector<Piece> pieces);

// The same elements in fewer pieces: adjacent contiguous runs are merged.
std::vector<Piece> MergeRuns(const std::vector<Piece>& pieces);

}  // namespace trireme
