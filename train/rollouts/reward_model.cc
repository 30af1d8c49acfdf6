#include "train/rollouts/reward_model.h"

#include <utility>

#include "data/answer_tokens.h"
#include "session/value_head.h"
#include "train/step/sequence_scores.h"

namespace trireme {
namespace {

// As data of stage rm has it.
AnswerSample ScoredSampleOf(const Judged& one) {
  const Rollout& rollout = *one.rollout;
  if (one.prompt->asked.is_null()) {
    return TokenAnswers{.prompt = {rollout.prompt_ids.begin(), rollout.prompt_ids.end()},
                        .answers = {{rollout.completion_ids.begin(), rollout.completion_ids.end()}},
                        .values = {0}};
  }
  const bool chat = one.prompt->asked.is_array();
  const Json turn = {{"role", "assistant"}, {"content", rollout.completion}};
  return TextAnswers{
      .prompt = one.prompt->asked, .answers = {chat ? Json::array({turn}) : Json(rollout.completion)}, .values = {0}};
}

}  // namespace

RewardModel::RewardModel(const Session& policy, const OtherModel& model)
    : tokenizer_({.model = model.directory, .chat_template = {}, .records = Records::kPairs}),
      model_(policy.OpenOther(model)),
      bias_(ScoreBiasOf(model_->config(), model_->graph())) {
  model_->TakeWeights();
}

Row RewardModel::RowOf(const Judged& one) const {
  std::vector<StoredRow> rows = TokeniseAnswers(ScoredSampleOf(one), tokenizer_, VocabularyOf(model_->graph()));
  const StoredRow& row = rows.at(0);
  return {{row.ids.begin(), row.ids.end()}, std::vector<int64_t>(row.ids.size(), kNotTrained)};
}

std::vector<double> RewardModel::Of(std::span<const Judged> completions) {
  std::vector<Row> rows;
  for (const Judged& one : completions) rows.push_back(RowOf(one));
  std::vector<double> scores = SequenceScoresOf(*model_, RowList(std::move(rows)));
  for (double& score : scores) score += bias_;
  return scores;
}

}  // namespace trireme
