#include "parallel/sharding/pieces.h"

#include <algorithm>

#include "core/base/error.h"

namespace trireme {
namespace {

// Whether the elements are contiguous.
bool IsRun(const Piece& piece) {
  int64_t stride = 1;
  for (size_t dim = piece.extent.size(); dim-- > 0;) {
    if (piece.extent[dim] == 1) continue;
    if (piece.strides[dim] != stride) return false;
    stride *= piece.extent[dim];
  }
  return true;
}

}  // namespace

std::vector<Piece> OwnedPieces(const Shard& shard, int64_t offset) {
  std::vector<Piece> pieces;
  for (const ShardBox& box : shard.boxes) {
    if (box.replica == 0) pieces.push_back({offset + box.offset, box.global.extent, shard.strides});
  }
  return pieces;
}

std::vector<Piece> PiecesInBox(const Shape& local_shape, const FlatPart& part, const Box& box) {
  const Shape strides = RowMajorStrides(local_shape);
  std::vector<Piece> pieces;
  for (const FlatPiece& run : FlatRangeBoxes(local_shape, part.elements.begin, part.elements.end)) {
    const auto common = Intersect(run.box, box);
    if (!common) continue;
    int64_t offset = part.offset - part.elements.begin;
    for (size_t dim = 0; dim < strides.size(); ++dim) offset += common->offset[dim] * strides[dim];
    pieces.push_back({offset, common->extent, strides});
  }
  return pieces;
}

std::vector<Piece> JoinIfDense(std::vector<Piece> pieces) {
  if (pieces.empty()) return pieces;
  int64_t begin = pieces[0].offset, end = begin, elements = 0;
  for (const Piece& piece : pieces) {
    int64_t last = piece.offset;
    for (size_t dim = 0; dim < piece.extent.size(); ++dim) {
      last += (piece.extent[dim] - 1) * piece.strides[dim];
    }
    begin = std::min(begin, piece.offset);
    end = std::max(end, last + 1);
    elements += piece.elements();
  }
  if (elements != end - begin) return pieces;
  return {{begin, {elements}, {1}}};
}

std::vector<Piece> MergeRuns(const std::vector<Piece>& pieces) {
  std::vector<Piece> merged;
  int64_t run_end = -1;  // end of the last piece of `merged`, if it is a run
  for (const Piece& piece : pieces) {
    if (!IsRun(piece)) {
      merged.push_back(piece);
      run_end = -1;
      continue;
    }
    if (piece.offset == run_end) {
      merged.back().extent[0] += piece.elements();
    } else {
      merged.push_back({piece.offset, {piece.elements()}, {1}});
    }
    run_end = piece.offset + piece.elements();
  }
  return merged;
}

}  // namespace trireme
