// AnswerObjective: objectives over whole answers: a loss of the log-probabilities of the micro batch's documents. Turns
// tokens into plain numbers per answer and derivatives back into weights per token; what is computed of the numbers is
// each objective's own. Documents of one sample (the two sides of a pair, the chosen one first) are in one micro batch.
#pragma once

#include <span>
#include <vector>

#include "parallel/objectives/answer_facts.h"
#include "parallel/objectives/log_probs.h"

namespace trireme {

// Of the documents of a micro batch, in host memory, the same on all its context ranks.
struct Answers {
  std::vector<double> log_probs;  // by document: the sum that counts in comparisons, with the data's weights
  std::vector<double> learnt;     // by document: the sum over all trained labels
  std::vector<double> logits;  // by document: the sum over all trained labels of their mean logit over the vocabulary
  const PassInput& input;
  const BatchTotals& totals;
  const AnswerFacts& facts = input.facts.Get<AnswerFacts>();
  const AnswerTotals& kinds = totals.facts.Get<AnswerTotals>();

  size_t size() const { return log_probs.size(); }
  double reference(size_t document) const { return facts.reference.empty() ? 0 : facts.reference[document]; }
};

struct AnswerGradient {
  explicit AnswerGradient(size_t documents) : log_probs(documents, 0.0), learnt(documents, 0.0) {}

  std::vector<double> log_probs;  // derivative of the loss by each of Answers::log_probs
  std::vector<double> learnt;     // and of Answers::learnt
  NamedSums sums = {};            // what this micro batch adds
};

class AnswerObjective : public LogProbObjective {
 public:
  using LogProbObjective::LogProbObjective;

 protected:
  at::Tensor KnownWeights(const TrainedTokens& /*tokens*/, const PassContext& /*pass*/) const final { return {}; }
  at::Tensor Weigh(const LabelLogProbs& log_probs) const final;

  // Normalised by the batch's totals alone. Its sums are SumNames', each of them.
  virtual AnswerGradient Differentiate(const Answers& answers) const = 0;
};

// Only the documents' log-probabilities, for a pass that wants them (PassWants): a reference's.
class AnswerLogProbs : public AnswerObjective {
 public:
  using AnswerObjective::AnswerObjective;
  std::vector<std::string> SumNames(int64_t /*mtp_depths*/) const override { return {}; }

 protected:
  AnswerGradient Differentiate(const Answers& answers) const override { return AnswerGradient(answers.size()); }
};

}  // namespace trireme
