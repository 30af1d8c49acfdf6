#include "parallel/layers/kept_features.h"

#include <ATen/ops/cat.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/tensor/device_copies.h"

namespace trireme {

std::vector<size_t> KeptFeatures::Missing(const std::vector<ContentDigest>& images) const {
  std::vector<size_t> missing;
  for (size_t i = 0; i < images.size(); ++i) {
    if (!kept_.contains(images[i])) missing.push_back(i);
  }
  return missing;
}

at::Tensor KeptFeatures::Join(const at::Tensor& computed, const std::vector<size_t>& missing,
                              const std::vector<ContentDigest>& images, const std::vector<int64_t>& tokens,
                              int64_t sets) {
  const at::Tensor found = computed.view({sets, computed.size(0) / sets, computed.size(1)});
  std::vector<at::Tensor> parts;
  int64_t begin = 0;
  for (size_t i = 0; i < images.size(); ++i) {
    if (std::ranges::binary_search(missing, i)) {
      parts.push_back(found.narrow(1, begin, tokens[i]));
      begin += tokens[i];
    } else {
      parts.push_back(Upload(kept_.at(images[i]), computed.device()));
      ++uses_;
    }
  }
  TRIREME_CHECK(begin == found.size(1)) << found.size(1)
                                        << " tokens passed the tower, but the images that were missing have " << begin;
  for (const size_t i : missing) Keep(images[i], parts[i]);
  return at::cat(parts, 1).flatten(0, 1);
}

void KeptFeatures::Keep(const ContentDigest& image, const at::Tensor& features) {
  const auto bytes = static_cast<int64_t>(features.nbytes());
  if (bytes_ + bytes > most_bytes_ || kept_.contains(image)) return;  // an image may be there twice in a micro batch
  bytes_ += bytes;
  kept_.emplace(image, features.is_cpu() ? features.clone() : features.to(at::kCPU));
}

}  // namespace trireme
