// Objectives over the log-probability of each label: forward gives log p, backward takes a weight for each token.
// Where the weights are known beforehand everything is one product over the vocabulary, as in CrossEntropy; where
// they follow from the log-probabilities themselves (the sum of a row decides first) it is one product more, less
// what of the last chunk is still in memory. Preference and policy losses are written on this.
#pragma once

#include "parallel/objectives/objective.h"
#include "parallel/objectives/vocabulary.h"

namespace trireme {

// What an objective knows of a micro batch when it gives its weights.
struct LabelLogProbs {
  const at::Tensor& values;     // [trained] fp32
  const TrainedTokens& tokens;  // [trained]
  const HeadStates& head;
  PassContext& pass;
  const at::Tensor& known;      // what KnownWeights gave: [trained] fp32, or undefined

  // Their sums over each document, over all context ranks: [documents of the micro batch] fp32. Collective over
  // head.context.
  at::Tensor SumsBySequence() const { return SumsBySequence(values); }
  // The same of other numbers of the trained tokens.
  at::Tensor SumsBySequence(const at::Tensor& numbers) const;
  // What each trained token counts in its document's log-probability: the data's weights, or 1 each; [trained] fp32.
  at::Tensor TokenWeights() const;
  // From a value for each document ([documents]) to one for each trained token of it.
  at::Tensor OfEachToken(const at::Tensor& by_sequence) const;
};

class LogProbObjective : public Objective {
 public:
  explicit LogProbObjective(int64_t chunk_bytes = 0) : chunk_bytes_(chunk_bytes) {}
  std::vector<at::Tensor> Run(const HeadStates& head, PassContext& pass) const final;

 protected:
  // d value / d log p of each trained token ([trained] fp32), where no log-probability is needed for it; undefined
  // where Weigh says it.
  virtual at::Tensor KnownWeights(const TrainedTokens& tokens, const PassContext& pass) const = 0;
  // Adds the objective's sums to pass.output; the result is used where nothing was known before.
  virtual at::Tensor Weigh(const LabelLogProbs& log_probs) const = 0;

 private:
  const int64_t chunk_bytes_;
};

// loss = - Σ weight · log p, with the data's weights or, where it has none, 1 / trained tokens of the whole batch: the
// mean negative log-likelihood. Sums: `loss`.
class WeightedLogProbs : public LogProbObjective {
 public:
  using LogProbObjective::LogProbObjective;
  std::vector<std::string> SumNames(int64_t mtp_depths) const override;

 protected:
  at::Tensor KnownWeights(const TrainedTokens& tokens, const PassContext& pass) const override;
  at::Tensor Weigh(const LabelLogProbs& log_probs) const override;
};

}  // namespace trireme
