// The embedding over a shard of the vocabulary: each rank looks up the tokens it holds, the sum is the
// embedding. Others than the first layer may use its weight, too.
#pragma once

#include "parallel/layers/layer.h"

namespace trireme {

// Of the whole model: in the list of weights.
inline constexpr char kEmbeddingWeight[] = "embedding.embedding.weight";

// The embeddings of `tokens` ([tokens] int64): [tokens (or this rank's share), hidden]. weight: [vocabulary /
// tp, hidden]. Its gradient is summed where `anchor` requires one, which is otherwise unused.
at::Tensor LookUp(const at::Tensor& anchor, const at::Tensor& tokens, const Weight& weight,
                  const TensorParallel& parallel);

class EmbeddingLayer : public RunningLayer {
 public:
  EmbeddingLayer(const Layer& layer, const Weights& weights, const TensorParallel& parallel, double dropout);
  at::Tensor Forward(const at::Tensor& anchor, PassContext& pass) const override;

 private:
  const Weight& weight_;  // [vocabulary / tp, hidden]
  const TensorParallel& parallel_;
  const double dropout_;
};

}  // namespace trireme
