// The embedding over a shard of the vocabulary: each rank looks up the tokens it holds, the sum is the
// embedding.
#pragma once

#include "parallel/layers/layer.h"

namespace trireme {

class EmbeddingLayer : public RunningLayer {
 public:
  EmbeddingLayer(const Layer& layer, const Weights& weights, const TensorParallel& parallel, double dropout);
  at::Tensor Forward(const at::Tensor& anchor, const MicroBatch& batch) const override;

 private:
  const Weight& weight_;  // [vocabulary / tp, hidden]
  const TensorParallel& parallel_;
  const double dropout_;
};

}  // namespace trireme
