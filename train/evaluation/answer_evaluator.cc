#include "train/evaluation/answer_evaluator.h"

#include <algorithm>
#include <filesystem>
#include <string>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "data/record_fields.h"
#include "generation/generator.h"
#include "generation/text/prompts.h"
#include "text/chat_template.h"

namespace trireme {
namespace {

GenerationOptions AnswerOptions(const Config& config) {
  const EvalConfig& eval = config.eval();
  return {.sampling = {.temperature = eval.temperature(),
                       .top_k = eval.top_k(),
                       .top_p = eval.top_p(),
                       .min_p = eval.min_p(),
                       .repetition_penalty = eval.repetition_penalty(),
                       .seed = static_cast<uint64_t>(config.run().seed())},
          .batch = eval.batch()};
}

bool HasChatTemplate(const Config& config) {
  const std::filesystem::path model = config.model().path();
  if (!config.data().template_().empty() || PathExists(model / "chat_template.jinja")) return true;
  const std::filesystem::path settings = model / "tokenizer_config.json";
  return PathExists(settings) && ReadJsonFile(settings.string()).contains("chat_template");
}

// Rows of tokens need no chat template; without one only the model's end tokens end an answer.
CompletionRules RulesOf(const Config& config, const Tokenizer& tokenizer) {
  CompletionRules rules{.ends = EndTokens(config.model().path(), &tokenizer), .stops = {}};
  if (!HasChatTemplate(config)) return rules;
  const ChatTemplate chat = ChatTemplate::Of(tokenizer, config.data().template_(), TemplateValuesOf(config.data()));
  if (const auto end = TurnEnd(tokenizer, chat)) rules.ends.insert(*end);
  return rules;
}

// The same rule for what the data has as for what a model writes: it ends before the first end token.
std::string LabelText(Completion answer, const Tokens& tokens) {
  for (const int64_t token : tokens) {
    if (!answer.Take(token)) break;
  }
  return answer.text();
}

// A number of eval.metrics that checkpoints are compared by has to be there.
void RequireMetric(const MetricValues& values, const EvalConfig& eval) {
  if (eval.metric().empty() || values.contains(eval.metric())) return;
  std::vector<std::string> known;
  for (const auto& [name, value] : values) known.push_back(name);
  throw RuntimeError("eval.metric = ", eval.metric(), ": no function of eval.metrics returned it; there are ",
                     Join(known), "; write one of them");
}

}  // namespace

AnswerEvaluator::AnswerEvaluator(const Config& config, const RowSource& rows)
    : config_(config),
      tokenizer_(config.model().path()),
      prompts_(AnswerPromptsOf(rows, config.eval().records())),
      rules_(RulesOf(config, tokenizer_)),
      positions_(MostPositions(config.model().path())) {
  if (prompts_.empty()) throw InputError("eval.generate: no validation conversation has an answer; check data.valid");
  for (size_t i = 0; i < prompts_.size(); ++i) {
    CheckPrompt(prompts_[i].prompt, positions_, Concat("eval.generate: validation conversation ", i + 1));
  }
}

MetricValues AnswerEvaluator::Run(Session& session) {
  std::vector<Tokens> prompts;
  std::vector<Completion> answers;
  for (const AnswerPrompt& one : prompts_) {
    const int64_t most = config_.eval().max_new_tokens();
    answers.push_back(NewAnswer(positions_ ? std::min(most, *positions_ - std::ssize(one.prompt)) : most));
    prompts.push_back(one.prompt);
  }
  Generator(session).Run(prompts, AnswerOptions(config_),
                         [&](size_t row, int64_t token) { return answers[row].Take(token); });
  predictions_.clear();
  for (size_t i = 0; i < prompts_.size(); ++i) {
    const std::vector<int32_t> ids(prompts[i].begin(), prompts[i].end());
    predictions_.push_back({.prompt = tokenizer_.Decode(ids, /*skip_special=*/false),
                            .prediction = answers[i].text(),
                            .label = LabelText(NewAnswer(std::ssize(prompts_[i].label)), prompts_[i].label),
                            .finish_reason = answers[i].reason(),
                            .prediction_ids = answers[i].ids(),
                            .label_ids = prompts_[i].label});
  }
  MetricValues values = MeanScores(predictions_);
  values.merge(OwnMetrics(session.job()));
  RequireMetric(values, config_.eval());
  return values;
}

MetricValues AnswerEvaluator::OwnMetrics(Job& job) {
  if (config_.eval().metrics().empty()) return {};
  std::string text;
  if (job.rank() == 0) {
    if (!metrics_) metrics_.emplace(config_.eval());
    text = JsonLine(metrics_->Of(predictions_));
  }
  uint64_t bytes = text.size();
  job.BroadcastBytes(&bytes, sizeof bytes);
  text.resize(bytes);
  job.BroadcastBytes(text.data(), bytes);
  return ParseJson(text, "eval.metrics").get<MetricValues>();
}

}  // namespace trireme
