// AnswerEvaluator: lets a session's model write the last answer of each validation conversation (the section eval), and
// compares it with the data's. Uses the weights as they are; trains nothing, writes no file.
#pragma once

#include <optional>
#include <vector>

#include "core/config.pb.h"
#include "data/rows.h"
#include "generation/text/answer.h"
#include "generation/text/answer_prompts.h"
#include "session/session.h"
#include "text/tokenizer.h"
#include "train/evaluation/predictions.h"
#include "train/report/logged_step.h"

namespace trireme {

class AnswerEvaluator {
 public:
  // Reads the prompts; refuses a model without a tokenizer and rows without answers. Touches no device. `config`
  // outlives it.
  AnswerEvaluator(const Config& config, const RowSource& rows);

  // The mean scores, the same on every rank. Collective.
  MetricValues Run(Session& session);
  // Of the last run, in the order of the data.
  const std::vector<Prediction>& predictions() const { return predictions_; }

 private:
  // Of at most so many tokens, text included.
  Answer NewAnswer(int64_t most) const { return Answer(rules_, most, &tokenizer_); }

  const Config& config_;
  const Tokenizer tokenizer_;
  const std::vector<AnswerPrompt> prompts_;
  AnswerRules rules_;
  std::optional<int64_t> positions_;  // that the model supports
  std::vector<Prediction> predictions_;
};

}  // namespace trireme
