#include "train/report/log_line.h"

namespace trireme {

Json LogLineOf(const LoggedStep& step) {
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
  if (step.evaluation) {
    line["eval_loss"] = step.evaluation->loss;
    for (const auto& [name, value] : step.evaluation->metrics) line["eval_" + name] = value;
    if (step.evaluation->token_accuracy) line["eval_token_accuracy"] = *step.evaluation->token_accuracy;
    line["eval_seconds"] = step.evaluation->seconds;
  }
  return line;
}

}  // namespace trireme
