#include "core/plan/file_pieces.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace trireme {
namespace {

// The parameter's dims in the file's order; dims of one element may be missing
// there.
std::vector<size_t> DimsInFile(const HfTensor& tensor) {
  std::vector<size_t> order(tensor.box.extent.size());
  for (size_t dim = 0; dim < order.size(); ++dim) order[dim] = dim;
  if (tensor.transposed) std::swap(order.at(order.size() - 2), order.at(order.size() - 1));
  std::vector<size_t> kept;
  size_t file_dim = tensor.shape.size();
  for (size_t i = order.size(); i-- > 0;) {
    const int64_t extent = tensor.box.extent[order[i]];
    if (file_dim > 0 && tensor.shape[file_dim - 1] == extent) {
      kept.push_back(order[i]);
      --file_dim;
    } else {
      TRIREME_CHECK(extent == 1) << tensor.name << " " << ShapeText(tensor.shape) << " is not a box "
                                 << ToText(tensor.box);
    }
  }
  TRIREME_CHECK(file_dim == 0) << tensor.name << " " << ShapeText(tensor.shape) << " is not a box "
                               << ToText(tensor.box);
  std::reverse(kept.begin(), kept.end());
  return kept;
}

FilePiece PieceOf(const HfTensor& tensor, const Box& common, const ShardBox& held, const Shape& strides) {
  FilePiece piece{.tensor = &tensor, .box = {}, .offset = held.offset, .strides = {}, .replica = held.replica};
  for (size_t dim = 0; dim < strides.size(); ++dim) {
    piece.offset += (common.offset[dim] - held.global.offset[dim]) * strides[dim];
  }
  for (const size_t dim : DimsInFile(tensor)) {
    piece.box.offset.push_back(common.offset[dim] - tensor.box.offset[dim]);
    piece.box.extent.push_back(common.extent[dim]);
    piece.strides.push_back(strides[dim]);
  }
  return piece;
}

}  // namespace

std::vector<FilePiece> FilePieces(const Parameter& parameter, const Shard& shard) {
  std::vector<FilePiece> pieces;
  for (const ShardBox& held : shard.boxes) {
    for (const HfTensor& tensor : parameter.hf) {
      const auto common = Intersect(held.global, tensor.box);
      if (common) pieces.push_back(PieceOf(tensor, *common, held, shard.strides));
    }
  }
  return pieces;
}

}  // namespace trireme
