// `megatron sft|pt|rlhf` of ms-swift. Rules and defaults as swift/megatron/arguments has them.
#include "core/base/error.h"
#include "translate/megatron.h"
#include "translate/swift.h"
#include "translate/trainer.h"

namespace trireme {
namespace {

std::vector<RuleRow> MegatronSwiftRules() {
  std::vector<RuleRow> rules = {
      {"save output_dir", To("run.output")},
      {"load", Missing("a Megatron checkpoint; name the Hugging Face directory in model")},
      {"mcore_model", Missing("a Megatron checkpoint; name the Hugging Face directory in model")},
      {"num_train_epochs max_epochs", To("run.epochs")},
      {"save_steps save_interval", To("save.every")},
      {"eval_steps eval_interval", To("eval.every")},
      {"logging_steps log_interval", To("log.every")},
      {"save_strategy",
       [](const Setting& setting, Translation& result) {
         if (setting.value() == "epoch") result.Set("save.every_epoch", std::string("true"), setting.origin);
       }},
      {"steps_per_generation", To("rl.steps_per_generation")},
      {"adapter_load mcore_adapter", Missing("a Megatron checkpoint of adapters; tuning.adapters takes PEFT's")},
      {"bridge_backend language_model_only", NotNeeded("nothing here depends on it")},
  };
  for (RuleRow& row : MegatronRules()) rules.push_back(std::move(row));
  for (RuleRow& row : SwiftRules()) rules.push_back(std::move(row));
  for (RuleRow& row : TrainerRules()) rules.push_back(std::move(row));
  return rules;
}

void FinishMegatronSwift(const Given& given, const Surroundings&, const std::string& stage, Translation& result) {
  const std::string system = "ms-swift's megatron";
  result.Default("tuning.kind", "full", system);
  result.Default("optimizer.lr", result.value("tuning.kind") == "lora" ? "1e-4" : "1e-5", system);
  result.Default("memory.recompute", "selective", system);
  result.Default("parallel.sequence", "false", system);
  result.Default("log.every", "5", system);
  result.Default("eval.every", result.value("save.every", "500"), system);
  if (!result.has("run.epochs") && !result.has("run.steps")) {
    result.Refuse("num_train_epochs, train_iters", "neither is given; one of them is needed");
  }
  if (const Setting* batch = given.Find("generation_batch_size")) {
    const double steps = given.Number("generation_batch_size", 0) / given.Number("global_batch_size", 16);
    result.Set("rl.steps_per_generation", steps, batch->origin + " over global_batch_size");
  }
  FinishMegatron(given, 0, result);
  FinishSwift(given, stage, result);
  FinishTrainer(given, "megatron " + given.command, result);
}

}  // namespace

const System& MegatronSwiftSystem() {
  static const System system = {"megatron-swift", "ms-swift's megatron", SwiftStage, MegatronSwiftRules,
                                FinishMegatronSwift};
  return system;
}

}  // namespace trireme
