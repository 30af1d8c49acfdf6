// Objectives over the log-probability of each label: forward computes log p, backward needs a weight per
// token. If the weights are known beforehand, everything is one gemm over the vocabulary, as in CrossEntropy;
// if they depend on the log-probabilities themselves (such as the sum of a row), it takes one more gemm,
// except for the last chunk, whose logits are still in memory. Preference and policy losses build on this.
#pragma once

#include "parallel/objectives/objective.h"
#include "parallel/objectives/vocabulary.h"

namespace trireme {

// What an objective knows of a micro batch when it computes its weights.
struct LabelLogProbs {
  const at::Tensor& values;     // [trained] fp32
  const TrainedTokens& tokens;  // [trained]
  const HeadStates& head;
  PassContext& pass;
  const at::Tensor& known;      // what KnownWeights gave: [trained] fp32, or undefined
  const at::Tensor& entropies;  // [trained] fp32 where they were asked for, or undefined

  // Their sums over each document, over all context ranks: [documents of the micro batch] fp32. Collective over
  // head.context.
  at::Tensor SumsBySequence() const { return SumsBySequence(values); }
  // The same of other numbers of the trained tokens.
  at::Tensor SumsBySequence(const at::Tensor& numbers) const;
  // What each trained token counts in its document's log-probability: the data's weights, or 1 each; [trained] fp32.
  at::Tensor TokenWeights() const;
  // Of each trained token, the mean of its logits over the vocabulary: [trained] fp32. No logit is computed for it: the
  // mean of products with the weight's rows is the product with their mean. Collective over head.tensor.
  at::Tensor MeanLogits() const;
  // From a value for each document ([documents]) to one for each trained token of it.
  at::Tensor OfEachToken(const at::Tensor& by_sequence) const;
};

class LogProbObjective : public Objective {
 public:
  explicit LogProbObjective(int64_t chunk_bytes = 0) : chunk_bytes_(chunk_bytes) {}
  std::vector<at::Tensor> Run(const HeadStates& head, PassContext& pass) const final;

 protected:
  // Logits are divided by it before the softmax.
  virtual double temperature() const { return 1; }
  // Whether Weigh takes the entropy of each token's distribution.
  virtual bool wants_entropies() const { return false; }
  // d value / d entropy of each trained token, where they count in the value.
  virtual double EntropyWeight(const PassContext& /*pass*/) const { return 0; }
  // d value / d log p of each trained token ([trained] fp32), if it does not depend on log-probabilities;
  // undefined if only Weigh can compute it.
  virtual at::Tensor KnownWeights(const TrainedTokens& tokens, const PassContext& pass) const = 0;
  // Adds the objective's sums to pass.output; returns the weights, used if KnownWeights was undefined.
  virtual at::Tensor Weigh(const LabelLogProbs& log_probs) const = 0;

 private:
  const int64_t chunk_bytes_;
};

// loss = - Σ weight · log p, with the data's weights or, without them, 1 / trained tokens of the whole batch:
// the mean negative log-likelihood. Sums: `loss`.
class WeightedLogProbs : public LogProbObjective {
 public:
  using LogProbObjective::LogProbObjective;
  std::vector<std::string> SumNames(int64_t mtp_depths) const override;

 protected:
  at::Tensor KnownWeights(const TrainedTokens& tokens, const PassContext& pass) const override;
  at::Tensor Weigh(const LabelLogProbs& log_probs) const override;
};

}  // namespace trireme
