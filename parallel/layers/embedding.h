// The embedding, its vocabulary split over tensor-parallel ranks: each rank looks up the tokens it holds; the
// sum over ranks is the embedding. Later layers may use its weight as well.
#pragma once

#include "parallel/layers/layer.h"

namespace trireme {

// Its name in the model's list of weights.
inline constexpr char kEmbeddingWeight[] = "embedding.embedding.weight";

// The embeddings of `tokens` ([tokens] int64): [tokens (or this rank's shard), hidden]. weight: [vocabulary /
// tp, hidden]. Its gradient is accumulated if `anchor`, otherwise unused, requires one; the row of the token `padding`
// gets none, as torch's nn.Embedding has it.
at::Tensor LookUp(const at::Tensor& anchor, const at::Tensor& tokens, const Weight& weight, int64_t padding,
                  const TensorParallel& parallel);

class EmbeddingLayer : public RunningLayer {
 public:
  EmbeddingLayer(const Layer& layer, const Weights& weights, const TensorParallel& parallel,
                 const LayerOptions& options);
  // Of a model that sees, `anchor` are the features of images (image_features.h).
  at::Tensor Forward(const at::Tensor& anchor, PassContext& pass) const override;

 private:
  double ScaleFor(at::ScalarType type) const;
  at::Tensor WithNoise(const at::Tensor& x, const PassContext& pass) const;

  const EmbeddingSpec spec_;
  const Weight& weight_;  // [vocabulary / tp, hidden]
  const TensorParallel& parallel_;
  const TensorParallel whole_;  // the layout of a vision tower's features: every rank has all of them
  const double dropout_, neftune_alpha_;
};

}  // namespace trireme
