// The head: the last norm, and the weight of the logits, for whatever objective the pass has. Hidden states of
// multi-token prediction, which come normalised, are handed to it beside the model's own. What is computed of them,
// and in which pieces, is the objective's business.
#pragma once

#include "parallel/layers/layer.h"
#include "parallel/objectives/objective.h"

namespace trireme {

class HeadLayer : public RunningLayer {
 public:
  HeadLayer(const Layer& layer, const Weights& weights, const LayerParallel& parallel);
  // Runs the pass's objective. Where the pass is differentiated: zeros, one for each prediction depth, whose backward
  // pass begins with 1 for each and gives the objective's gradients; otherwise nothing.
  at::Tensor Forward(const at::Tensor& x, PassContext& pass) const override;
  bool makes_gradients_forward() const override { return true; }
  bool is_head() const override { return true; }

 private:
  // By prediction depth: [tokens (of all ranks), hidden].
  std::vector<at::Tensor> HiddenStates(const at::Tensor& x, const PassContext& pass) const;
  at::Tensor Normalised(const at::Tensor& x) const;
  HeadStates StatesOf(const std::vector<at::Tensor>& hidden) const;

  HeadSpec spec_;
  const TensorParallel& parallel_;
  const ContextParallel& context_;
  const Weight* norm_;    // nullptr: what comes in is normalised
  const Weight& logits_;  // [vocabulary / tp, hidden]; the embedding's where they are tied
};

}  // namespace trireme
