// A layer of multi-token prediction: for each position it joins the hidden state with the embedding of a
// later token, known from the training data, and runs a decoder layer on the result. The embedding is the
// model's own; logits and loss are the head's.
#pragma once

#include "parallel/layers/decoder.h"
#include "parallel/layers/layer.h"

namespace trireme {

class MtpLayer : public RunningLayer {
 public:
  MtpLayer(const Layer& layer, const Weights& weights, const LayerParallel& parallel, const LayerOptions& options);
  // x: the hidden states of all earlier depths, concatenated along the tokens; the first layer gets the
  // model's, not normalised. The result appends this layer's; all are normalised. If the batch has no mtp
  // inputs, the layer appends nothing.
  at::Tensor Forward(const at::Tensor& x, PassContext& pass) const override;
  bool can_run_again() const override { return true; }

 private:
  // before: [tokens (or this rank's shard), hidden].
  at::Tensor Join(const at::Tensor& before, PassContext& mtp_pass) const;

  const MtpSpec spec_;
  const double norm_eps_;
  const TensorParallel& parallel_;
  const Weight& embedding_;   // [vocabulary / tp, hidden]
  const Weight* model_norm_;  // first layer only: the model's final norm
  const Weight& embedding_norm_;
  const Weight& hidden_norm_;
  const Weight& join_;  // [hidden, embedding | hidden]
  const DecoderLayer block_;
  const Weight& norm_;
};

}  // namespace trireme
