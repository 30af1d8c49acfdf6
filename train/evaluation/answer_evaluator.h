// AnswerEvaluator: lets a session's model write the last answer of each validation conversation (the section eval), and
// compares it with the data's, by eval.metrics, too. Uses the weights as they are; trains nothing, writes no file.
#pragma once

#include <optional>
#include <vector>

#include "core/config.pb.h"
#include "data/rows.h"
#include "generation/text/answer_prompts.h"
#include "generation/text/completion.h"
#include "session/session.h"
#include "text/tokenizer.h"
#include "train/evaluation/answer_metrics.h"
#include "train/evaluation/predictions.h"
#include "train/report/logged_step.h"

namespace trireme {

class AnswerEvaluator {
 public:
  // Reads the prompts; refuses a model without a tokenizer and rows without answers. Touches no device. `config`
  // outlives it.
  AnswerEvaluator(const Config& config, const RowSource& rows);

  // The mean scores, and the numbers of eval.metrics, which rank 0 asks for: the same on every rank. Collective.
  MetricValues Run(Session& session);
  // Of the last run, in the order of the data.
  const std::vector<Prediction>& predictions() const { return predictions_; }

 private:
  // Of at most so many tokens, text included.
  Completion NewAnswer(int64_t most) const { return Completion(rules_, most, &tokenizer_); }

  MetricValues OwnMetrics(Job& job);

  const Config& config_;
  const Tokenizer tokenizer_;
  const std::vector<AnswerPrompt> prompts_;
  CompletionRules rules_;
  std::optional<int64_t> positions_;  // that the model supports
  std::vector<Prediction> predictions_;
  std::optional<AnswerMetrics> metrics_;  // on rank 0, once they have been asked
};

}  // namespace trireme
