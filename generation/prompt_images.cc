#include "generation/prompt_images.h"

#include <algorithm>
#include <utility>

namespace trireme {

PlacedImages::PlacedImages(std::span<const int64_t> prompt, PromptImages images, const ImageTokens& kind, bool rotary)
    : images_(std::move(images)) {
  const std::span<const int64_t> seen = images_.within < 0 ? prompt : prompt.first(static_cast<size_t>(images_.within));
  std::vector<ImageGrid> grids;
  for (const PromptImage& image : images_.each) grids.push_back(image.grid);
  std::vector<int64_t> positions = ImagePositions(seen, grids, kind);  // also where only its checks are wanted
  if (images_.empty()) return;
  auto at = seen.begin();
  for (const PromptImage& image : images_.each) {
    at = std::find(at, seen.end(), kind.placeholder);
    const int64_t begin = at - seen.begin(), count = image.grid.tokens(kind.merge);
    spans_.push_back({.begin = begin, .end = begin + count, .content = image.content});
    at += count;
  }
  if (!rotary) return;
  within_ = std::ssize(seen);
  next_ = *std::ranges::max_element(positions) + 1;
  positions_ = std::move(positions);
}

int64_t PlacedImages::Position(int64_t token, int axis) const {
  return token < within_ ? positions_[static_cast<size_t>(axis * within_ + token)] : next_ + token - within_;
}

}  // namespace trireme
