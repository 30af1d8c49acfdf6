// Classifiers, with transformers' losses of …ForSequenceClassification: the cross-entropy of one label among several,
// the binary cross-entropy of each of several labels, or the squared error of numbers; mean over the texts of the
// batch, and over the numbers of each.
#include <algorithm>
#include <cmath>
#include <memory>

#include "core/base/error.h"
#include "parallel/objectives/pair_losses.h"
#include "parallel/objectives/text_scores.h"

namespace trireme {
namespace {

class ClassificationObjective : public TextScoreObjective {
 public:
  explicit ClassificationObjective(const TextLossOptions& options)
      : TextScoreObjective(options.pooling, /*of_tokens=*/false), labels_(options.labels) {}

 protected:
  ScoreGradient Differentiate(const ScoredDocuments& documents) const override {
    ScoreGradient gradient(documents.scores.size());
    const double share = BatchTotals::Reciprocal(documents.texts.documents);
    const auto numbers = static_cast<size_t>(documents.numbers);
    const double of_each = share / static_cast<double>(documents.numbers);
    const bool single = labels_ == LabelKind::kSingle;
    TRIREME_CHECK(documents.values.size() == documents.documents() * (single ? 1 : numbers))
        << documents.values.size() << " values of " << documents.documents() << " texts with " << numbers << " numbers";
    for (size_t i = 0; i < documents.documents(); ++i) {
      if (single) {
        AddSingle(documents, i, share, gradient);
        continue;
      }
      for (size_t k = i * numbers; k < (i + 1) * numbers; ++k) AddNumber(documents, k, of_each, gradient);
    }
    return gradient;
  }

 private:
  static void AddSingle(const ScoredDocuments& documents, size_t i, double share, ScoreGradient& gradient) {
    const auto numbers = static_cast<size_t>(documents.numbers);
    const std::span<const float> scores = documents.scores.subspan(i * numbers, numbers);
    const auto label = static_cast<size_t>(documents.values[i]);
    TRIREME_CHECK(label < numbers) << "label " << label << " of " << numbers;
    const double highest = *std::ranges::max_element(scores);
    double exponentials = 0;
    for (const float score : scores) exponentials += std::exp(score - highest);
    const double log_sum = highest + std::log(exponentials);
    gradient.loss += share * (log_sum - scores[label]);
    for (size_t k = 0; k < numbers; ++k) {
      gradient.by_score[i * numbers + k] = share * (std::exp(scores[k] - log_sum) - (k == label ? 1 : 0));
    }
  }

  void AddNumber(const ScoredDocuments& documents, size_t k, double share, ScoreGradient& gradient) const {
    const double score = documents.scores[k], value = documents.values[k];
    if (labels_ == LabelKind::kRegression) {
      gradient.loss += share * (score - value) * (score - value);
      gradient.by_score[k] = share * 2 * (score - value);
      return;
    }
    gradient.loss -= share * (value * LogSigmoid(score) + (1 - value) * LogSigmoid(-score));
    gradient.by_score[k] = share * (Sigmoid(score) - value);
  }

  const LabelKind labels_;
};

}  // namespace

std::unique_ptr<Objective> MakeClassification(const ObjectiveOptions& options) {
  return std::make_unique<ClassificationObjective>(options.texts);
}

}  // namespace trireme
