// The head: normalise, logits, cross-entropy over a shard of the vocabulary. The logits exist for one chunk
// of tokens at a time, on each rank for its own part of the vocabulary; their gradient is used up at once. In
// generation it gives the whole logits of a few tokens instead. Hidden states of multi-token prediction,
// which come normalised, have a loss each.
#pragma once

#include "parallel/layers/layer.h"

namespace trireme {

class HeadLayer : public RunningLayer {
 public:
  HeadLayer(const Layer& layer, const Weights& weights, const TensorParallel& parallel);
  // The mean loss of the trained tokens times their share of the batch: a scalar, or with multi-token
  // prediction [1 + depths]. Its backward pass begins with 1 for each; the depths' weight is in the gradient
  // alone. Where the batch has a cache, logits: [wanted, vocabulary].
  at::Tensor Forward(const at::Tensor& x, const MicroBatch& batch) const override;
  bool makes_gradients_forward() const override { return true; }
  bool gives_loss() const override { return true; }

 private:
  // x: of one depth, whose loss has that weight.
  at::Tensor LossOf(const at::Tensor& x, const MicroBatch& batch, double weight) const;
  at::Tensor Normalised(const at::Tensor& x) const;
  // [wanted, vocabulary], the same on every rank of the group.
  at::Tensor Logits(const at::Tensor& x, const at::Tensor& wanted) const;

  HeadSpec spec_;
  const TensorParallel& parallel_;
  const Weight* norm_;    // nullptr: what comes in is normalised
  const Weight& logits_;  // [vocabulary / tp, hidden]; the embedding's where they are tied
};

}  // namespace trireme
