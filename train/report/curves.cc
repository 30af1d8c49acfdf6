#include "train/report/curves.h"

#include "core/base/error.h"

namespace trireme {
namespace {

using Curves = std::vector<std::pair<std::string, double>>;

void AddStep(const LoggedStep& step, Curves& curves) {
  const auto add = [&](const std::string& tag, double number) { curves.emplace_back(tag, number); };
  add("train/loss", step.loss);
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
}

void AddEvaluated(const Evaluation& evaluation, Curves& curves) {
  if (evaluation.loss) curves.emplace_back("eval/loss", *evaluation.loss);
  for (const auto& [name, value] : evaluation.metrics) curves.emplace_back("eval/" + name, value);
  if (evaluation.token_accuracy) curves.emplace_back("eval/token_accuracy", *evaluation.token_accuracy);
}

}  // namespace

std::vector<std::pair<std::string, double>> CurvesOf(const LoggedStep& step) {
  Curves curves;
  if (step.step > 0) AddStep(step, curves);
  if (step.evaluation) AddEvaluated(*step.evaluation, curves);
  return curves;
}

}  // namespace trireme
