// Where the features of images enter the decoder: they replace the embeddings of image tokens, and further sets of them
// are added to the outputs of the first decoder layers (deepstack).
#pragma once

#include <memory>

#include "parallel/layers/decoder.h"
#include "parallel/layers/layer.h"

namespace trireme {

// The image tokens among those that this rank holds between tensor-parallel blocks, and which of the images' tokens
// each is: [image tokens here] int64, on the pass's device.
struct ImagePlaces {
  at::Tensor token;
  at::Tensor feature;

  ImagePlaces(const PassContext& pass, const TensorParallel& parallel);
  int64_t count() const { return token.defined() ? token.size(0) : 0; }
};

// x: [tokens (or this rank's shard), hidden]; features: [(1 + taps) · image tokens, hidden], the same on every
// tensor-parallel rank. Returns x with its image tokens replaced, followed by this rank's features of each tap. `whole`
// is the layout of the features, without sequence parallelism; it outlives the backward pass.
at::Tensor PlaceFeatures(const at::Tensor& x, const at::Tensor& features, int64_t taps, const PassContext& pass,
                         const TensorParallel& parallel, const TensorParallel& whole);

// A decoder layer whose input has image features after the tokens: it adds the first set to its output and hands on the
// others.
class TappedDecoder : public RunningLayer {
 public:
  TappedDecoder(const Layer& layer, const Weights& weights, const LayerParallel& parallel, const LayerOptions& options);
  at::Tensor Forward(const at::Tensor& x, PassContext& pass) const override;
  bool can_run_again() const override { return true; }

 private:
  const int64_t taps_;
  const TensorParallel& parallel_;
  const DecoderLayer decoder_;
};

}  // namespace trireme
