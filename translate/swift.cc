// `swift sft|pt|rlhf` of ms-swift. Rules and defaults as swift/arguments and swift/trainers/arguments.py have them.
#include <algorithm>

#include "core/base/error.h"
#include "translate/swift.h"
#include "translate/trainer.h"

namespace trireme {
namespace {

std::vector<RuleRow> SwiftTrainerRules() {
  std::vector<RuleRow> rules = SwiftRules();
  rules.push_back({"sequence_parallel_size", [](const Setting& setting, Translation& result) {
                     result.Set("parallel.context", setting.value(), setting.origin);
                     if (setting.value() != "1")
                       result.Set("parallel.context_method", std::string("ulysses"), setting.origin);
                   }});
  rules.push_back({"fsdp", Map("parallel.zero", {{"fsdp2", "3"}})});
  return WithTrainerRules(std::move(rules));
}

// There in micro batches, here in optimizer steps; a step's own micro batches have the same weights.
void SetStepsPerGeneration(const Given& given, int world, Translation& result) {
  const double accumulation = given.Number("gradient_accumulation_steps", 1);
  const double micro = given.Number("per_device_train_batch_size", 1);
  const Setting* batch = given.Find("generation_batch_size");
  const double micro_steps = batch != nullptr ? given.Number("generation_batch_size", 0) / (micro * world)
                                              : given.Number("steps_per_generation", accumulation);
  const double steps = std::max(1.0, micro_steps / accumulation);
  if (steps != static_cast<int>(steps)) {
    return result.Refuse("steps_per_generation",
                         Concat(micro_steps, " micro batches are no whole number of steps of ", accumulation));
  }
  if (steps > 1) result.Set("rl.steps_per_generation", steps, "steps_per_generation over gradient_accumulation_steps");
}

void FinishSwiftRun(const Given& given, const Surroundings& around, const std::string& stage, Translation& result) {
  const std::string system = "ms-swift";
  const int world = WorldOf(given, around);
  result.Default("tuning.kind", "lora", system);
  result.Default("optimizer.lr", result.value("tuning.kind") == "lora" ? "1e-4" : "1e-5", system);
  result.Default("run.epochs", "3", system);
  result.Default("parallel.zero", "0", system);
  result.Default("memory.recompute", "full", system);
  result.Default("run.log_every", "5", system);
  const int context = std::atoi(result.value("parallel.context", "1").c_str());
  SetBatch(given, world, {.per_device = 1, .accumulation = stage == "grpo" ? 1 : 0, .shared_by = std::max(1, context)},
           result);
  const bool rl = stage == "grpo" || stage == "rloo" || stage == "reinforce_plus_plus";
  if (rl) SetStepsPerGeneration(given, world, result);
  SetSavesAndEvaluations(given, true, result);
  FinishSwift(given, stage, result);
  FinishTrainer(given, "swift " + given.command, result);
}

}  // namespace

const System& SwiftSystem() {
  static const System system = {"swift", "ms-swift's swift", SwiftStage, SwiftTrainerRules, FinishSwiftRun};
  return system;
}

}  // namespace trireme
