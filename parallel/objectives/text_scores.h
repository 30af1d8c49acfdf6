// TextScores: objectives over scores of whole texts: numbers that a linear head makes of each document's pooled hidden
// state. What they cost is each objective's own (reranker.cc, classification.cc). Where the scores are the difference
// of two tokens' logits (a generative reranker), the head's rows of these tokens are the weight. Sums: `loss`.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "parallel/objectives/objective.h"
#include "parallel/objectives/objective_options.h"
#include "parallel/objectives/text_facts.h"

namespace trireme {

// Of the documents of a micro batch, in host memory.
struct ScoredDocuments {
  std::span<const float> scores;  // [documents, numbers]
  int64_t numbers = 1;            // of each document
  const std::vector<double>& values;
  const std::vector<int64_t>& samples;  // of each document
  const BatchTotals& totals;
  const TextTotals& texts = totals.facts.Get<TextTotals>();

  size_t documents() const { return samples.size(); }
};

struct ScoreGradient {
  explicit ScoreGradient(size_t scores) : by_score(scores, 0.0) {}

  double loss = 0;               // what the micro batch adds
  std::vector<double> by_score;  // its derivative
};

class TextScoreObjective : public Objective {
 public:
  // of_tokens: the scores are differences of two tokens' logits.
  TextScoreObjective(TextPooling pooling, bool of_tokens) : pooling_(pooling), of_tokens_(of_tokens) {}
  bool needs_scores() const override { return !of_tokens_; }
  std::vector<std::string> SumNames(int64_t /*mtp_depths*/) const override { return {"loss"}; }
  std::vector<at::Tensor> Run(const HeadStates& head, PassContext& pass) const override;

 protected:
  // Normalised by the batch's totals alone.
  virtual ScoreGradient Differentiate(const ScoredDocuments& documents) const = 0;

 private:
  const TextPooling pooling_;
  const bool of_tokens_;
};

}  // namespace trireme
