#include "train/report/curves.h"

#include "core/base/error.h"

namespace trireme {

std::vector<std::pair<std::string, double>> CurvesOf(const LoggedStep& step) {
  std::vector<std::pair<std::string, double>> curves = {{"train/loss", step.loss}};
  const auto add = [&](const std::string& tag, double number) { curves.emplace_back(tag, number); };
  for (size_t depth = 0; depth < step.mtp_loss.size(); ++depth) {
    add(Concat("train/mtp_loss_", depth + 1), step.mtp_loss[depth]);
  }
  for (const auto& [name, value] : step.metrics) add("train/" + name, value);
  add("train/grad_norm", step.grad_norm);
  add("train/learning_rate", step.learning_rate);
  add("train/epoch", step.epoch);
  add("speed/tokens_per_second", step.tokens_per_second);
  add("speed/step_seconds", step.step_seconds);
  add("speed/mfu", step.mfu);
  add("speed/memory_gib", step.memory_gib);
  if (!step.evaluation) return curves;
  add("eval/loss", step.evaluation->loss);
  for (const auto& [name, value] : step.evaluation->metrics) add("eval/" + name, value);
  if (step.evaluation->token_accuracy) add("eval/token_accuracy", *step.evaluation->token_accuracy);
  return curves;
}

}  // namespace trireme
