// TRL's command line, `trl sft|dpo|kto|grpo|rloo|reward`, and its YAML. Defaults as trl/trainer's configs have them.
#include "core/base/error.h"
#include "translate/trainer.h"

namespace trireme {
namespace {

std::string TrlStage(const Given& given) { return given.command == "reward" ? "rm" : given.command; }

void HubName(const Setting& setting, Translation& result) { result.Set("data.train", setting.values, setting.origin); }

std::vector<RuleRow> TrlRules() {
  return WithTrainerRules({
      {"dataset_name", HubName},
      {"dataset_config dataset_train_split dataset_test_split", NotNeeded("data.train names what is read")},
      {"use_peft",
       [](const Setting& setting, Translation& result) {
         result.Set("tuning.kind", std::string(setting.off() ? "full" : "lora"), setting.origin);
       }},
      {"lora_target_modules", To("tuning.targets")},
      {"lora_task_type", NotNeeded("nothing here depends on it")},
      {"lora_modules_to_save", To("tuning.modules_to_save")},
      {"load_in_4bit", IfOn("model.quantise", "nf4")},
      {"load_in_8bit", IfOn("model.quantise", "int8")},
      {"use_bnb_nested_quant", To("model.quantise_nested")},
      {"bnb_4bit_quant_type", To("model.quantise")},
      {"attn_implementation model_revision", NotNeeded("nothing here depends on it")},
      {"assistant_only_loss completion_only_loss", Elsewhere()},
      {"truncation_mode", Only({"keep_start"}, "the beginning of long samples is kept")},
      {"max_length max_seq_length", To("data.max_length")},
      {"padding_free", NotNeeded("a step has the same samples with and without padding")},
      {"packing_strategy eval_packing", NotNeeded("data.packing decides")},
      {"steps_per_generation generation_batch_size", Elsewhere()},
      {"reward_model_name_or_path",
       [](const Setting& setting, Translation& result) {
         result.Set("rl.rewards", Concat("model:", setting.value()), setting.origin);
       }},
      {"reward_funcs", Map("rl.rewards", {{"accuracy_reward", "accuracy"}, {"think_format_reward", "format"}})},
      {"loss_type",
       [](const Setting& setting, Translation& result) {
         const std::string stage = result.value("stage");
         if (stage == "sft") return Only({"nll"}, "the loss of a language model has no types here")(setting, result);
         To(stage == "dpo" || stage == "kto" ? "preference.loss" : "rl.loss")(setting, result);
       }},
      {"fsdp fsdp_config", Missing("parallel.zero: 3 shards parameters; FSDP's files are not read")},
  });
}

// TRL's rl.steps_per_generation counts micro batches.
void SetTrlGeneration(const Given& given, int world, Translation& result) {
  const double micro = given.Number("per_device_train_batch_size", 8),
               accumulation = given.Number("gradient_accumulation_steps", 1);
  const double all =
      given.Number("generation_batch_size", micro * world * given.Number("steps_per_generation", accumulation));
  const double steps = all / (micro * world * accumulation);
  if (steps > 1) result.Set("rl.steps_per_generation", steps, "steps_per_generation over gradient_accumulation_steps");
  const double completion = given.Number("max_completion_length", 256), prompt = given.Number("max_prompt_length", 512);
  result.Set("rl.max_new_tokens", completion, "max_completion_length");
  result.Set("data.max_length", completion + prompt, "max_prompt_length + max_completion_length");
}

void FinishTrl(const Given& given, const Surroundings& around, const std::string& stage, Translation& result) {
  const std::string system = "TRL";
  const bool rl = stage == "grpo" || stage == "rloo";
  const int world = WorldOf(given, around);
  result.Default("tuning.kind", "full", system);
  result.Default("tuning.rank", "16", system);
  result.Default("optimizer.lr",
                 rl || stage == "dpo" || stage == "kto" ? "1e-6"
                 : stage == "rm"                        ? "1e-4"
                                                        : "2e-5",
                 system);
  result.Default("optimizer.schedule", "linear", system);
  result.Default("optimizer.weight_decay", "0", system);
  result.Default("optimizer.beta2", "0.999", system);
  result.Default("run.epochs", "3", system);
  result.Default("log.every", "10", system);
  result.Default("data.max_length", "1024", system);
  result.Default("data.over_length", "truncate", system);
  result.Default("data.packing", "false", system);
  result.Default("parallel.zero", "0", system);
  result.Default("memory.recompute", "full", system);
  const bool answers = given.IsOn("assistant_only_loss") || given.IsOn("completion_only_loss");
  if (stage == "sft")
    result.Set("data.loss", std::string(answers ? "answers" : "all"),
               answers ? "assistant_only_loss" : "default of TRL for messages");
  if (stage == "grpo") result.Default("rl.loss", "dapo", system);
  if (stage == "grpo") result.Default("rl.beta", "0", system);
  if (stage == "rloo") result.Default("rl.beta", "0.05", system);
  if (stage == "rloo") result.Default("rl.group", "2", system);
  SetBatch(given, world, {.per_device = 8, .accumulation = 1}, result);
  if (rl) SetTrlGeneration(given, world, result);
  SetSavesAndEvaluations(given, false, result);
  FinishTrainer(given, "TRL", result);
}

}  // namespace

const System& TrlSystem() {
  static const System system = {"trl", "TRL", TrlStage, TrlRules, FinishTrl};
  return system;
}

}  // namespace trireme
