// A layer of multi-token prediction: for each place it joins what was computed so far with the embedding of a
// token further on, which the training data knows, and runs a decoder layer over that. The embedding is the
// model's own; logits and loss are the head's business.
#pragma once

#include "parallel/layers/decoder.h"
#include "parallel/layers/layer.h"

namespace trireme {

class MtpLayer : public RunningLayer {
 public:
  MtpLayer(const Layer& layer, const Weights& weights, const LayerParallel& parallel,
           const LayerOptions& options);
  // x: the hidden states of all depths before, one block of tokens behind the other; the first layer gets the
  // model's, not normalised. The result has this layer's behind them, all normalised. Where the batch has
  // nothing ahead, the layer adds none.
  at::Tensor Forward(const at::Tensor& x, PassContext& pass) const override;
  bool can_run_again() const override { return true; }

 private:
  // before: [tokens (or this rank's share), hidden].
  at::Tensor Join(const at::Tensor& before, PassContext& ahead) const;

  const MtpSpec spec_;
  const double norm_eps_;
  const TensorParallel& parallel_;
  const Weight& embedding_;   // [vocabulary / tp, hidden]
  const Weight* model_norm_;  // of the first layer: the model's last norm
  const Weight& embedding_norm_;
  const Weight& hidden_norm_;
  const Weight& join_;  // [hidden, embedding | hidden]
  const DecoderLayer block_;
  const Weight& norm_;
};

}  // namespace trireme
