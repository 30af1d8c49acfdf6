#include "train/report/log_line.h"

namespace trireme {

namespace {

void AddEvaluation(const Evaluation& evaluation, Json& line) {
  if (evaluation.loss) line["eval_loss"] = *evaluation.loss;
  for (const auto& [name, value] : evaluation.metrics) line["eval_" + name] = value;
  if (evaluation.token_accuracy) line["eval_token_accuracy"] = *evaluation.token_accuracy;
  line["eval_seconds"] = evaluation.seconds;
}

}  // namespace

Json LogLineOf(const LoggedStep& step) {
  if (step.step == 0 && step.evaluation) {
    Json line = {{"step", 0}, {"elapsed_seconds", step.elapsed_seconds}};
    AddEvaluation(*step.evaluation, line);
    return line;
  }
  Json line = {{"step", step.step},
               {"loss", step.loss},
               {"grad_norm", step.grad_norm},
               {"learning_rate", step.learning_rate},
               {"tokens", step.tokens},
               {"samples", step.samples},
               {"tokens_per_second", step.tokens_per_second},
               {"step_seconds", step.step_seconds},
               {"data_seconds", step.data_seconds},
               {"mfu", step.mfu},
               {"memory_gib", step.memory_gib},
               {"epoch", step.epoch},
               {"elapsed_seconds", step.elapsed_seconds},
               {"remaining_seconds", step.remaining_seconds()}};
  if (step.mfu > 1) line["mfu_unsure"] = "above 1: the machine was slower when its peak was measured";
  if (!step.mtp_loss.empty()) line["mtp_loss"] = step.mtp_loss;
  for (const auto& [name, value] : step.metrics) line[name] = value;
  if (!step.experts.is_null()) line["experts"] = step.experts;
  if (!step.skipped.empty()) line["skipped"] = step.skipped;
  if (step.evaluation) AddEvaluation(*step.evaluation, line);
  return line;
}

}  // namespace trireme
