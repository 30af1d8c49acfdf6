#include "parallel/pass/shared_image_positions.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace trireme {
namespace {

// A document that later ones may begin with.
struct SharedDocument {
  size_t begin = 0;         // its first token
  size_t image = 0;         // its first image
  int64_t image_token = 0;  // and that one's first token, among those of all images
};

// How many of the images begin in these tokens.
size_t ImagesIn(std::span<const int64_t> tokens, std::span<const ImageGrid> grids, const ImageTokens& kind) {
  size_t images = 0;
  for (size_t i = 0; i < tokens.size() && images < grids.size();) {
    i += tokens[i] == kind.placeholder ? static_cast<size_t>(grids[images++].tokens(kind.merge)) : 1;
  }
  return images;
}

template <typename T>
void AddTo(std::vector<T>& all, std::span<const T> more) {
  all.insert(all.end(), more.begin(), more.end());
}

class TokenPlacer {
 public:
  TokenPlacer(std::span<const int64_t> tokens, std::span<const ImageGrid> grids, const ImageTokens& kind)
      : tokens_(tokens),
        grids_(grids),
        kind_(kind),
        placed_{std::vector<int64_t>(3 * tokens.size()), std::vector<int64_t>(tokens.size(), -1)} {
    TRIREME_CHECK(kind.merge > 0) << "merge size " << kind.merge;
  }

  void Document(size_t begin, size_t count, size_t shared) {
    if (shared == 0) origin_ = {begin, image_, image_token_};
    const std::span<const int64_t> prefix = tokens_.subspan(origin_.begin, shared);
    const std::span<const ImageGrid> of_prefix =
        grids_.subspan(origin_.image).first(ImagesIn(prefix, grids_.subspan(origin_.image), kind_));
    std::vector<int64_t> whole(prefix.begin(), prefix.end());
    AddTo(whole, tokens_.subspan(begin, count));
    std::vector<ImageGrid> images(of_prefix.begin(), of_prefix.end());
    AddTo(images, grids_.subspan(image_));
    images.resize(std::max(ImagesIn(whole, images, kind_), of_prefix.size()));
    Put(begin, shared, whole, ImagePositions(whole, images, kind_), TokensOf(of_prefix));
    image_ += images.size() - of_prefix.size();
    image_token_ += TokensOf(images) - TokensOf(of_prefix);
  }

  PlacedImageTokens Take() {
    if (image_ < grids_.size()) {
      throw InputError("the row has ", grids_.size() - image_,
                       " more images than its tokens have placeholders for; the first of them is ",
                       grids_[image_].height, " x ", grids_[image_].width, " patches");
    }
    return std::move(placed_);
  }

 private:
  int64_t TokensOf(std::span<const ImageGrid> images) const {
    int64_t tokens = 0;
    for (const ImageGrid& grid : images) tokens += grid.tokens(kind_.merge);
    return tokens;
  }

  // `whole`: the document with its beginning, whose images have `known` tokens.
  void Put(size_t begin, size_t shared, const std::vector<int64_t>& whole, const std::vector<int64_t>& positions,
           int64_t known) {
    int64_t number = 0;  // of a placeholder in the document
    for (size_t i = 0; i < whole.size(); ++i) {
      const bool of_image = whole[i] == kind_.placeholder;
      const int64_t now = number;
      number += of_image;
      if (i < shared) continue;
      const size_t token = begin + i - shared;
      for (size_t axis = 0; axis < 3; ++axis) {
        placed_.positions[axis * tokens_.size() + token] = positions[axis * whole.size() + i];
      }
      if (of_image) placed_.image_token[token] = now < known ? origin_.image_token + now : image_token_ + now - known;
    }
  }

  const std::span<const int64_t> tokens_;
  const std::span<const ImageGrid> grids_;
  const ImageTokens kind_;
  PlacedImageTokens placed_;
  SharedDocument origin_;
  size_t image_ = 0;         // the next one
  int64_t image_token_ = 0;  // and its first token
};

}  // namespace

PlacedImageTokens PlaceImageTokens(std::span<const int64_t> tokens, std::span<const int64_t> lengths,
                                   std::span<const int64_t> shared, std::span<const ImageGrid> grids,
                                   const ImageTokens& kind) {
  TokenPlacer placer(tokens, grids, kind);
  size_t begin = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const auto count = static_cast<size_t>(lengths[i]);
    TRIREME_CHECK(lengths[i] >= 0 && begin + count <= tokens.size());
    placer.Document(begin, count, shared.empty() ? 0 : static_cast<size_t>(shared[i]));
    begin += count;
  }
  if (begin < tokens.size()) placer.Document(begin, tokens.size() - begin, 0);
  return placer.Take();
}

}  // namespace trireme
