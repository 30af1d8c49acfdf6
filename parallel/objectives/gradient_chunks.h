// GradientChunks: the gradients of a micro batch whose tokens have weights, chunk by chunk of its logits. Shared by the
// objectives; what the weights are is theirs to say.
#pragma once

#include <ATen/core/Tensor.h>

#include "parallel/objectives/vocabulary.h"

namespace trireme {

// What is added to the cross-entropy of a token.
struct LogitPenalties {
  double smoothing = 0;      // fraction of the target that is spread over the vocabulary
  double z_coefficient = 0;  // of the squared log-sum-exp

  bool any() const { return smoothing > 0 || z_coefficient > 0; }
};

// A token's weight scales a row of the hidden states' gradient and a row of the weight gradient's input rather than the
// logits, which are far larger.
class GradientChunks {
 public:
  GradientChunks(const HeadStates& head, const TrainedTokens& trained, bool wanted);

  // weights: [trained], of each token's log-probability; log_sum_exp: [tokens of the chunk]. Overwrites the chunk's
  // logits.
  void Add(const LogitChunk& chunk, const at::Tensor& weights, const at::Tensor& log_sum_exp);

  // The same with entropy_weight: what each token's entropy ([tokens of the chunk]) counts.
  void AddWithEntropy(const LogitChunk& chunk, const at::Tensor& weights, const at::Tensor& log_sum_exp,
                      const at::Tensor& entropies, double entropy_weight);

  // The same as Add for the loss with penalties: minus it is what each token's weight multiplies.
  void AddWithPenalties(const LogitChunk& chunk, const at::Tensor& weights, const at::Tensor& log_sum_exp,
                        const LogitPenalties& penalties);

  const at::Tensor& hidden() const { return hidden_; }  // [trained, hidden]

 private:
  void Accumulate(const LogitChunk& chunk);

  const HeadStates& head_;
  const at::Tensor hidden_;
};

}  // namespace trireme
