// PromptImages: the images of a prompt, and where they are in it: which tokens stand for them, and the positions of
// M-RoPE of all tokens, the generated ones among them. Patches are written when a pass wants them, as often as it is
// computed. How they are made is the caller's concern. No torch.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/base/image_grid.h"
#include "core/io/content_digest.h"
#include "generation/scheduler.h"
#include "parallel/pass/image_positions.h"

namespace trireme {

struct PromptImage {
  ImageGrid grid = {};
  ContentDigest content = {};  // the same only for the same patches
};

struct PromptImages {
  std::vector<PromptImage> each = {};  // in the order of their tokens
  // Writes the patches of one of them: [grid.patches(), elements of a patch].
  std::function<void(size_t image, float* patches)> write = {};
  int64_t within = -1;  // images are in so many tokens at the prompt's start, what follows is text; -1: in all of it

  bool empty() const { return each.empty(); }
};

class PlacedImages {
 public:
  // rotary: the model has M-RoPE; otherwise positions count tokens. Throws InputError where placeholders and images
  // differ.
  PlacedImages(std::span<const int64_t> prompt, PromptImages images, const ImageTokens& kind, bool rotary);

  const PromptImages& images() const { return images_; }
  bool empty() const { return images_.empty(); }
  const std::vector<ContentSpan>& spans() const { return spans_; }  // by image
  // Of a token of the prompt or after it: by time (0), row (1) or column (2).
  int64_t Position(int64_t token, int axis) const;

 private:
  PromptImages images_;
  std::vector<ContentSpan> spans_;
  std::vector<int64_t> positions_;  // [3, within]; empty: they count tokens
  int64_t within_ = 0;
  int64_t next_ = 0;  // the position of token `within_`
};

}  // namespace trireme
