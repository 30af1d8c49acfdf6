// `swift sft|pt|rlhf` of ms-swift. Rules and defaults as swift/arguments and swift/trainers/arguments.py have them.
#include <algorithm>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/config/yaml_document.h"
#include "translate/swift.h"
#include "translate/trainer.h"

namespace trireme {
namespace {

// fsdp2, or a file of its options.
void Fsdp(const Setting& setting, Translation& result) {
  if (setting.value() == "fsdp2") return result.Set("parallel.zero", std::string("3"), setting.origin);
  if (!PathExists(setting.value())) return result.Refuse(setting.origin, "cannot read it; parallel.zero: 3 is FSDP");
  const YAML::Node file = ParseYaml(ReadTextFile(setting.value()), {.name = setting.value()});
  const std::string kind = file["fsdp"] ? file["fsdp"].Scalar() : "";
  const YAML::Node options = file["fsdp_config"];
  const auto on = [&](const char* name) { return options && options[name] && options[name].Scalar() == "true"; };
  const bool keeps = options && options["reshard_after_forward"] && !on("reshard_after_forward");
  const bool some = keeps || kind.find("shard_grad_op") != std::string::npos;
  if (kind.find("shard") == std::string::npos)
    return result.Refuse(setting.origin, "wanted full_shard or shard_grad_op");
  result.Set("parallel.zero", std::string(some ? "2" : "3"), setting.origin);
  if (kind.find("offload") != std::string::npos)
    result.Set("memory.offload_parameters", std::string("true"), setting.origin);
  result.Set("memory.recompute", std::string(on("activation_checkpointing") ? "full" : "none"), setting.origin);
  if (!on("activation_cpu_offload")) return;
  result.Set("memory.recompute", std::string("full"), setting.origin);
  result.Set("memory.offload_activations", std::string("true"), setting.origin);
  result.Warn(setting.origin,
              "all activations wait on the host there; here the layers' inputs do, and the rest is recomputed");
}

std::vector<RuleRow> SwiftTrainerRules() {
  std::vector<RuleRow> rules = SwiftRules();
  rules.push_back({"sequence_parallel_size", [](const Setting& setting, Translation& result) {
                     result.Set("parallel.context", setting.value(), setting.origin);
                     if (setting.value() != "1")
                       result.Set("parallel.context_method", std::string("ulysses"), setting.origin);
                   }});
  rules.push_back({"fsdp", Fsdp});
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
  result.Default("log.every", "5", system);
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
