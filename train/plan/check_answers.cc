#include "train/plan/check_answers.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/config/unused_keys.h"
#include "stages/evaluation_check.h"
#include "stages/stage.h"

namespace trireme {
namespace {

// What a run's evaluations are compared by; a number of eval.metrics is known once its function has returned it.
void CheckAnswerMetric(const EvalConfig& eval) {
  const std::string& metric = eval.metric();
  if (metric.empty()) return;
  if (!eval.generate()) {
    throw InputError("eval.metric = ", metric,
                     " is of answers, and this run's evaluations write none; set eval.generate: true, or leave it out "
                     "for the loss");
  }
  static const std::vector<std::string> known = {"exact_match", "rouge-1", "rouge-2", "rouge-l", "bleu-4"};
  if (std::ranges::find(known, metric) != known.end() || eval.metrics_size() > 0) return;
  throw InputError("eval.metric = ", metric, ": evaluations of this run log ", Join(known),
                   "; write one of them, name a function in eval.metrics that returns it, or leave it out for the "
                   "loss");
}

}  // namespace

void CheckAnswerEvaluation(const Config& config) {
  const EvalConfig& eval = config.eval();
  if (!eval.generate()) return;
  RefuseUnusedKeys(config, "eval.generate");
  if (config.data().loss() == LOSS_ALL) {
    throw InputError("eval.generate: with data.loss all nothing tells prompts from answers; use answers or last_round");
  }
  if (config.data().over_length() == OVER_LENGTH_SPLIT) {
    throw InputError("eval.generate: data.over_length split parts answers from their prompts; use drop or truncate");
  }
  if (config.parallel().context() > 1) {
    throw InputError(
        "eval.generate: parallel.context = ", config.parallel().context(),
        ", and generation does not split a sequence over ranks; set it to 1, or evaluate later under another "
        "layout: trireme evaluate --generate");
  }
  if (eval.max_new_tokens() == 0) throw InputError("eval.max_new_tokens = 0: wanted at least 1");
  if (eval.top_p() == 0) throw InputError("eval.top_p = 0: wanted a probability above 0 and up to 1");
  if (eval.repetition_penalty() == 0)
    throw InputError("eval.repetition_penalty = 0: wanted a factor above 0; 1 changes nothing");
}

void CheckRunAnswers(const Config& config) {
  if (FactsOf(config).on_completions()) return;  // stages/evaluation_check.h
  CheckAnswerEvaluation(config);
  if (FactsOf(config).records == Records::kConversations) CheckAnswerMetric(config.eval());
  if (!config.eval().generate() || Evaluates(config)) return;
  throw InputError("eval.generate is for evaluations, and this run has none; set eval.every or eval.every_epoch");
}

}  // namespace trireme
