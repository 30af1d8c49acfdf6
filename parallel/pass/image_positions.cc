#include "parallel/pass/image_positions.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace trireme {
namespace {

class PositionWriter {
 public:
  PositionWriter(std::span<const int64_t> tokens, const ImageTokens& kind)
      : tokens_(tokens), kind_(kind), positions_(3 * tokens.size()) {
    TRIREME_CHECK(kind.merge > 0) << "merge size " << kind.merge;
  }

  // The document that begins at `begin`; the images that it took from the front of `grids` are removed there.
  void Document(size_t begin, size_t end, std::span<const ImageGrid>* grids) {
    int64_t next = 0;
    for (size_t i = begin; i < end;) {
      if (tokens_[i] != kind_.placeholder) {
        Put(i++, next, 0, 0);
        ++next;
        continue;
      }
      if (grids->empty()) {
        throw InputError("token ", i, " is a placeholder (", kind_.placeholder,
                         ") of an image, but the row's images end ",
                         "before it; each image needs as many placeholders as its grid has tokens");
      }
      Image(i, end, grids->front(), next);
      const int64_t count = grids->front().tokens(kind_.merge);
      i += static_cast<size_t>(count);
      next += kind_.tile > 0 ? count : std::max(grids->front().height, grids->front().width) / kind_.merge;
      *grids = grids->subspan(1);
    }
  }

  std::vector<int64_t> Take() { return std::move(positions_); }

 private:
  void Put(size_t token, int64_t next, int64_t row, int64_t column) {
    const size_t count = tokens_.size();
    positions_[token] = next;
    positions_[count + token] = next + row;
    positions_[2 * count + token] = next + column;
  }

  void Image(size_t begin, size_t end, const ImageGrid& grid, int64_t next) {
    Check(grid);
    const int64_t columns = grid.width / kind_.merge, count = grid.tokens(kind_.merge);
    for (int64_t k = 0; k < count; ++k) {
      const size_t i = begin + static_cast<size_t>(k);
      if (i >= end || tokens_[i] != kind_.placeholder) {
        throw InputError("the image at token ", begin, " has ", k, " placeholders (", kind_.placeholder,
                         "), but its grid of ", grid.height, " x ", grid.width, " patches has ", count, " tokens");
      }
      if (kind_.tile > 0) {
        Put(i, next + k, 0, 0);
      } else {
        Put(i, next, k / columns, k % columns);
      }
    }
  }

  void Check(const ImageGrid& grid) const {
    if (kind_.tile > 0) return CheckTiles(grid);
    if (grid.time != 1) throw InputError("an image's grid has ", grid.time, " frames; videos are not supported");
    if (grid.height < 1 || grid.width < 1 || grid.height % kind_.merge != 0 || grid.width % kind_.merge != 0) {
      throw InputError("an image's grid is ", grid.height, " x ", grid.width,
                       " patches; both must be positive multiples of ", kind_.merge,
                       ", the tower's spatial_merge_size");
    }
  }

  void CheckTiles(const ImageGrid& grid) const {
    if (grid.time >= 1 && grid.height == kind_.tile && grid.width == kind_.tile) return;
    throw InputError("an image's grid is ", grid.time, " tiles of ", grid.height, " x ", grid.width,
                     " patches; the model's tiles are ", kind_.tile, " x ", kind_.tile);
  }

  const std::span<const int64_t> tokens_;
  const ImageTokens kind_;
  std::vector<int64_t> positions_;
};

void NoImageLeft(std::span<const ImageGrid> grids) {
  if (grids.empty()) return;
  throw InputError("the row has ", grids.size(),
                   " more images than its tokens have placeholders for; the first of them is ", grids.front().height,
                   " x ", grids.front().width, " patches");
}

}  // namespace

std::vector<int64_t> ImagePositions(std::span<const int64_t> tokens, std::span<const ImageGrid> grids,
                                    const ImageTokens& kind) {
  PositionWriter writer(tokens, kind);
  writer.Document(0, tokens.size(), &grids);
  NoImageLeft(grids);
  return writer.Take();
}

std::vector<int64_t> PackedImagePositions(std::span<const int64_t> tokens, std::span<const int64_t> lengths,
                                          std::span<const ImageGrid> grids, const ImageTokens& kind) {
  PositionWriter writer(tokens, kind);
  size_t begin = 0;
  for (const int64_t length : lengths) {
    const size_t end = begin + static_cast<size_t>(length);
    TRIREME_CHECK(length >= 0 && end <= tokens.size());
    writer.Document(begin, end, &grids);
    begin = end;
  }
  writer.Document(begin, tokens.size(), &grids);
  NoImageLeft(grids);
  return writer.Take();
}

}  // namespace trireme
