// The head: the final norm and the weight of the logits, or of a value head's scores, for whatever objective the pass
// has. The objective also gets the hidden states of multi-token prediction, which arrive normalised. What is computed
// from them, and in which chunks, is up to the objective.
#pragma once

#include "parallel/layers/layer.h"
#include "parallel/objectives/objective.h"

namespace trireme {

class HeadLayer : public RunningLayer {
 public:
  HeadLayer(const Layer& layer, const Weights& weights, const LayerParallel& parallel);
  // Runs the pass's objective. If the pass is differentiated, returns zeros, one per prediction depth; their
  // backward pass starts with 1 each and returns the objective's gradients. Otherwise returns nothing.
  at::Tensor Forward(const at::Tensor& x, PassContext& pass) const override;
  bool makes_gradients_forward() const override { return true; }
  bool is_head() const override { return true; }

 private:
  // By prediction depth: [tokens (of all ranks), hidden].
  std::vector<at::Tensor> HiddenStates(const at::Tensor& x, const PassContext& pass) const;
  at::Tensor Normalised(const at::Tensor& x) const;
  // weight: of the logits, as the objective uses it.
  HeadStates StatesOf(const std::vector<at::Tensor>& hidden, const Weight& weight) const;

  HeadSpec spec_;
  const TensorParallel& parallel_;
  const ContextParallel& context_;
  const Weight* norm_;  // nullptr: the input is already normalised
  // [vocabulary / tp, hidden]; the embedding's if tied; [1, hidden] of a value head
  const Weight& weight_;
  const Weight *value_, *value_bias_;  // of a value head beside the logits; nullptr: there is none
};

}  // namespace trireme
