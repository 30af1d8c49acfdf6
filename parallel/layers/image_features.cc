#include "parallel/layers/image_features.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/index_add.h>
#include <ATen/ops/index_copy.h>

#include "core/tensor/device_copies.h"
#include "parallel/experts/token_shard.h"

namespace trireme {

ImagePlaces::ImagePlaces(const PassContext& pass, const TensorParallel& parallel) {
  const at::Tensor& all = pass.input.images.token_of;  // in host memory
  if (!all.defined()) return;
  const at::Tensor mine = parallel.sequence ? ShardOf(all, parallel) : all;
  const at::Tensor found = mine.ge(0).nonzero().squeeze(1);
  feature = Upload(mine.index_select(0, found), pass.input.tokens.device());
  token = Upload(found, pass.input.tokens.device());
}

// With sequence parallelism each rank has some of the image tokens: the gradient of the features is the sum over ranks.
at::Tensor PlaceFeatures(const at::Tensor& x, const at::Tensor& features, int64_t taps, const PassContext& pass,
                         const TensorParallel& parallel, const TensorParallel& whole) {
  const int64_t images = features.size(0) / (1 + taps);
  if (images == 0) return x;
  const at::Tensor shared = parallel.sequence ? GatherToTensorRegion(features, whole) : features;
  const ImagePlaces places(pass, parallel);
  const auto mine = [&](int64_t set) { return shared.narrow(0, set * images, images).index_select(0, places.feature); };
  std::vector<at::Tensor> parts = {at::index_copy(x, 0, places.token, mine(0).to(x.scalar_type()))};
  for (int64_t tap = 1; tap <= taps; ++tap) parts.push_back(mine(tap).to(x.scalar_type()));
  return parts.size() == 1 ? parts.front() : at::cat(parts);
}

TappedDecoder::TappedDecoder(const Layer& layer, const Weights& weights, const LayerParallel& parallel,
                             const LayerOptions& options)
    : taps_(std::get<DecoderSpec>(layer.spec).taps),
      parallel_(parallel.tensor),
      decoder_(layer, weights, parallel, options) {}

at::Tensor TappedDecoder::Forward(const at::Tensor& x, PassContext& pass) const {
  const ImagePlaces places(pass, parallel_);
  if (places.count() == 0) return decoder_.Forward(x, pass);
  const int64_t tokens = x.size(0) - taps_ * places.count();
  const at::Tensor y = decoder_.Forward(x.narrow(0, 0, tokens), pass);
  const at::Tensor added = at::index_add(y, 0, places.token, x.narrow(0, tokens, places.count()));
  if (taps_ == 1) return added;
  return at::cat({added, x.narrow(0, tokens + places.count(), (taps_ - 1) * places.count())});
}

}  // namespace trireme
