// Rerankers: scores of documents for their query, each by itself (the binary cross-entropy of score and label, mean
// over the documents of the batch) or against each other (the cross-entropy between the labels' shares and a softmax
// over the query's documents, mean over the queries).
#include <algorithm>
#include <cmath>
#include <memory>

#include "core/base/error.h"
#include "parallel/objectives/pair_losses.h"
#include "parallel/objectives/text_scores.h"

namespace trireme {
namespace {

class RerankerObjective : public TextScoreObjective {
 public:
  RerankerObjective(const TextLossOptions& options, bool of_tokens)
      : TextScoreObjective(options.pooling, of_tokens),
        listwise_(options.listwise),
        temperature_(options.temperature) {}

 protected:
  ScoreGradient Differentiate(const ScoredDocuments& documents) const override {
    ScoreGradient gradient(documents.scores.size());
    if (!listwise_) {
      for (size_t i = 0; i < documents.documents(); ++i) AddDocument(documents, i, gradient);
      return gradient;
    }
    for (size_t begin = 0, end = 0; begin < documents.documents(); begin = end) {
      while (end < documents.documents() && documents.samples[end] == documents.samples[begin]) ++end;
      AddQuery(documents, begin, end, gradient);
    }
    return gradient;
  }

 private:
  static void AddDocument(const ScoredDocuments& documents, size_t i, ScoreGradient& gradient) {
    const double share = BatchTotals::Reciprocal(documents.texts.documents);
    const double score = documents.scores[i], label = documents.values[i];
    gradient.loss -= share * (label * LogSigmoid(score) + (1 - label) * LogSigmoid(-score));
    gradient.by_score[i] = share * (Sigmoid(score) - label);
  }

  // Documents from `begin` to before `end`.
  void AddQuery(const ScoredDocuments& documents, size_t begin, size_t end, ScoreGradient& gradient) const {
    double highest = -INFINITY, exponentials = 0, labels = 0;
    for (size_t i = begin; i < end; ++i) highest = std::max(highest, documents.scores[i] / temperature_);
    for (size_t i = begin; i < end; ++i) {
      exponentials += std::exp(documents.scores[i] / temperature_ - highest);
      labels += documents.values[i];
    }
    TRIREME_CHECK(labels > 0) << "a query without a relevant document";
    const double share = documents.totals.per_sample(), log_sum = highest + std::log(exponentials);
    for (size_t i = begin; i < end; ++i) {
      const double log_probability = documents.scores[i] / temperature_ - log_sum,
                   wanted = documents.values[i] / labels;
      gradient.loss -= share * wanted * log_probability;
      gradient.by_score[i] = share * (std::exp(log_probability) - wanted) / temperature_;
    }
  }

  const bool listwise_;
  const double temperature_;
};

}  // namespace

std::unique_ptr<Objective> MakeReranker(const ObjectiveOptions& options) {
  return std::make_unique<RerankerObjective>(options.texts, /*of_tokens=*/false);
}

std::unique_ptr<Objective> MakeGenerativeReranker(const ObjectiveOptions& options) {
  return std::make_unique<RerankerObjective>(options.texts, /*of_tokens=*/true);
}

}  // namespace trireme
