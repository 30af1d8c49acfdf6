// KeptFeatures: what a vision tower that is not trained made of images, in host memory, so that an image that comes
// again does not pass the tower again. Which image is which is said by whoever makes micro batches; what features are
// for is not known here.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/io/content_digest.h"

namespace trireme {

class KeptFeatures {
 public:
  explicit KeptFeatures(int64_t most_bytes) : most_bytes_(most_bytes) {}

  // Which of the images the tower has to run on, by index.
  std::vector<size_t> Missing(const std::vector<ContentDigest>& images) const;

  // computed: [sets · tokens of the missing images, outputs], the sets of all images one after another. Keeps them, as
  // long as there is room, and returns the same of all images. An image that finds no room passes the tower each time:
  // images come in turn, so that dropping the oldest ones would leave none that is asked for again.
  at::Tensor Join(const at::Tensor& computed, const std::vector<size_t>& missing,
                  const std::vector<ContentDigest>& images, const std::vector<int64_t>& tokens, int64_t sets);

  // How many images did without the tower since the last call.
  int64_t TakeUses() { return std::exchange(uses_, 0); }

 private:
  void Keep(const ContentDigest& image, const at::Tensor& features);

  const int64_t most_bytes_;
  int64_t bytes_ = 0, uses_ = 0;
  std::map<ContentDigest, at::Tensor> kept_;  // [sets, tokens, outputs]
};

}  // namespace trireme
