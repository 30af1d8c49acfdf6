// The options that `swift` and `megatron` of ms-swift share.
#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/config/yaml_document.h"
#include "translate/megatron.h"
#include "translate/swift.h"
#include "translate/swift_model.h"
#include "translate/swift_retrieval.h"
#include "translate/swift_rewards.h"
#include "translate/swift_texts.h"

namespace trireme {
namespace {

bool IsRl(const std::string& stage) {
  return stage == "grpo" || stage == "rloo" || stage == "reinforce_plus_plus" || stage == "ppo";
}

void Dataset(const Setting& setting, Translation& result) {
  std::vector<std::string> entries;
  for (const std::string& value : setting.values) {
    const bool names_hub = value.starts_with("HF::") || value.starts_with("MS::");
    entries.push_back(names_hub ? value.substr(4) : value);
  }
  result.Set(setting.name == "dataset" ? "data.train" : "data.valid", entries, setting.origin);
}

// {"question": "query"}.
void Columns(const Setting& setting, Translation& result) {
  const YAML::Node names = ParseYaml(setting.value(), {.name = "columns"});
  std::vector<std::string> columns;
  if (names.IsMap()) {
    for (const auto& entry : names) columns.push_back(Concat(entry.first.Scalar(), "=", entry.second.Scalar()));
  }
  result.Set("data.columns", columns, setting.origin);
}

void NewTokens(const Setting& setting, Translation& result) {
  std::vector<std::string> tokens;
  for (const std::string& value : setting.values) {
    if (!value.ends_with(".txt")) {
      tokens.push_back(value);
    } else if (!PathExists(value)) {
      result.Refuse(setting.origin, Concat("cannot read ", value, ", which lists the tokens"));
    } else {
      std::ifstream file(value);
      for (std::string line; std::getline(file, line);) {
        if (!IsBlank(line)) tokens.push_back(line);
      }
    }
  }
  if (!tokens.empty()) result.Set("model.new_special_tokens", tokens, setting.origin);
}

void LossType(const Setting& setting, Translation& result) {
  const std::string stage = result.value("stage");
  if (IsRetrieval(stage)) return SetRetrievalLoss(setting, stage, result);
  const bool rl = IsRl(stage);
  static const std::vector<std::string> known = {"grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo"};
  if (rl && std::ranges::find(known, setting.value()) == known.end()) {
    return result.Refuse(setting.origin, Concat("rl.loss has ", Join(known), ", not ", setting.value()));
  }
  if (rl) return To("rl.loss")(setting, result);
  if (stage == "sft" || stage == "pt")
    return result.Refuse(setting.origin, "the loss of a language model has no types here");
  To("preference.loss")(setting, result);
}

// The format of tool calls; that of a tokenizer's own template is the same where ms-swift takes it by default.
void AgentTemplate(const Setting& setting, Translation& result) {
  const std::string model = result.value("model.path");
  const bool qwen = model.find("Qwen2.5") != std::string::npos || model.find("Qwen3-") != std::string::npos;
  if (setting.value() != "hermes" || !qwen)
    return result.Refuse(setting.origin, "conversations are written by the tokenizer's own template");
  result.LeaveOut(setting.origin, "the tokenizer's own template writes tool calls so");
}

// Texts to embed, rank or classify are taken as they are, which is what it says where it is off.
void UseChatTemplate(const Setting& setting, Translation& result) {
  const std::string stage = result.value("stage");
  if (setting.off() && !IsRetrieval(stage) && stage != "pt")
    return result.Refuse(setting.origin, "conversations without a chat template; give data.template");
  result.LeaveOut(setting.origin, "is so here");
}

// Of answers by their names here: those of ms-swift's nlg metrics.
void BestMetric(const Setting& setting, Translation& result) {
  const std::string name = setting.value().starts_with("eval_") ? setting.value().substr(5) : setting.value();
  if (name == "loss") return result.LeaveOut(setting.origin, "is so here");
  static const std::vector<std::string> known = {"rouge-1", "rouge-2", "rouge-l", "bleu-4"};
  if (std::ranges::find(known, name) == known.end())
    return result.Refuse(setting.origin,
                         Concat("the best checkpoint is that of the lowest loss, or of the highest ", Join(known)));
  result.Set("eval.metric", name, setting.origin);
}

// A loss is the better the lower it is, scores of answers the higher, there and here.
void CheckBestMetric(const Given& given, Translation& result) {
  const Setting* greater = given.Find("greater_is_better");
  if (greater == nullptr) return;
  const bool higher = !greater->off() && greater->value() != "False";
  if (higher != result.has("eval.metric"))
    return result.Refuse(greater->origin, "losses are better the lower they are, scores of answers the higher");
  result.LeaveOut(greater->origin, "is so here");
}

// Where answers are sampled they would end there.
void StopWords(const Setting& setting, Translation& result) {
  const std::string stage = result.value("stage");
  IsRl(stage) || stage == "gkd" ? result.Refuse(setting.origin, "completions end at an end token")
                                : result.LeaveOut(setting.origin, "no answers are sampled");
}

void SetMethodDefaults(const Given& given, const std::string& stage, Translation& result) {
  const std::string system = "ms-swift";
  if (stage == "simpo") {
    result.Default("preference.beta", "2", system);
    result.Default("preference.simpo_gamma", "1", system);
  }
  if (stage == "orpo") result.Default("preference.orpo_prompt_nll", "false", system);
  if (stage == "gkd" || IsRl(stage)) result.Default("rl.temperature", "0.9", system);
  if (stage == "gkd") result.Default("distillation.temperature", result.value("rl.temperature", "0.9"), system);
  if (!IsRl(stage) && stage != "gkd") return;
  result.Default("rl.max_new_tokens", "512", system);
  if (stage != "gkd" && result.has("rl.epsilon")) result.Default("rl.epsilon_high", result.value("rl.epsilon"), system);
  if (stage == "grpo") result.Default("rl.bias_correction_kl", "false", system);
  if (given.IsOn("dynamic_sample")) result.Default("rl.max_resample_times", "3", system);
  // The prompt's length there, that of prompt and completion here.
  if (const Setting* length = given.Find("max_length"); length != nullptr && stage != "gkd") {
    const double completion = std::strtod(result.value("rl.max_new_tokens").c_str(), nullptr);
    result.Set("data.max_length", given.Number("max_length", 0) + completion,
               Concat(length->origin, " + the completion's"));
  }
}

}  // namespace

std::string SwiftStage(const Given& given) {
  if (given.command != "rlhf") {
    const std::string stage = RetrievalStage(given);
    return !stage.empty() ? stage : given.command == "pt" ? "pt" : "sft";
  }
  const std::string method = given.Value("rlhf_type", "dpo");
  return method == "grpo" ? given.Value("advantage_estimator", "grpo") : method;
}

std::vector<RuleRow> SwiftRules() {
  const std::string samples_itself = "the program samples by itself, or from rl.sampler.endpoint";
  std::vector<RuleRow> rules = {
      {"model", To("model.path")},
      {"rlhf_type advantage_estimator", Elsewhere()},
      {"dataset val_dataset", Dataset},
      {"cached_dataset cached_val_dataset",
       Missing("data that ms-swift has prepared; name the data itself in dataset")},
      {"tuner_type train_type", Map("tuning.kind", {{"full", "full"}, {"lora", "lora"}, {"lora_llm", "lora"}})},
      {"target_modules", SetAdapterTargets},
      {"truncation_strategy", Map("data.over_length", {{"delete", "drop"}, {"right", "truncate"}, {"split", "split"}})},
      {"loss_scale", SetLossScale},
      {"padding_free mlp_padding_free", NotNeeded("a step has the same samples with and without padding")},
      {"packing_length", To("data.max_length")},
      {"freeze_vit freeze_aligner freeze_llm vit_lr aligner_lr", Elsewhere()},
      {"quant_bits quant_method bnb_4bit_quant_type bnb_4bit_use_double_quant", Elsewhere()},
      {"enable_thinking",
       [](const Setting& setting, Translation& result) {
         result.Set("data.template_values", Concat("enable_thinking=", setting.off() ? "false" : "true"),
                    setting.origin);
       }},
      {"add_non_thinking_prefix", NotNeeded("the tokenizer's own template decides")},
      {"model_name model_author", Elsewhere()},
      {"columns", Columns},
      {"new_special_tokens", NewTokens},
      {"rope_scaling", SetRope},
      {"max_model_len", Elsewhere()},
      {"loss_type", LossType},
      {"use_chat_template", UseChatTemplate},
      {"template", Missing("a template by name; data.template takes a file, and the tokenizer's own is the default")},
      {"template_mode", Missing("it has no key here")},
      {"model_kwargs", SetProcessor},
      {"stop_words", StopWords},
      {"agent_template", Elsewhere()},
      {"device_groups", NotNeeded("mpirun starts the ranks")},
      {"optimizer",
       Map("optimizer.name", {{"adam", "adamw"}, {"muon", "muon"}, {"dist_muon", "muon"}, {"multimodal", ""}})},
      {"multi_turn_scheduler", Missing("a scheduler in Python; rl.environment takes a program")},
      {"max_turns", Elsewhere()},
      {"dynamic_sample steps_per_generation generation_batch_size", Elsewhere()},
      {"kl_in_reward", Elsewhere()},
      {"vllm_server_host vllm_server_port vllm_server_base_url", NotNeeded(samples_itself)},
      {"async_generate", Missing("completions one sampling behind need rl.sampler.endpoint")},
      {"teacher_deepspeed", NotNeeded("the teacher has its student's layout; distillation.layout gives it another")},
      {"reward_funcs reward_model external_plugins", Elsewhere()},
      {"vllm_server_pass_dataset",
       Missing("for a scheduler of several turns in the sampling server; rl.environment takes a program")},
      {"enable_dft_loss", IfOn("loss.kind", "dft")},
      {"gkd_logits_topk",
       Differs("the divergence over so many of the teacher's likeliest tokens there, over the whole vocabulary here")},
      {"eval_iters",
       [](const Setting& setting, Translation& result) {
         const std::string stage = result.value("stage");
         if (setting.off() || setting.value() == "-1") return result.LeaveOut(setting.origin, "is all of data.valid");
         if (IsRl(stage) || stage == "gkd") return Differs("eval.records counts prompts")(setting, result);
         To("eval.batches")(setting, result);
       }},
      {"eval_use_evalscope eval_dataset eval_dataset_args eval_limit",
       Differs("evaluations by EvalScope within the run; let it ask trireme serve for a checkpoint's answers")},
      {"max_new_tokens",
       [](const Setting& setting, Translation& result) {
         To(IsRl(result.value("stage")) || result.value("stage") == "gkd" ? "rl.max_new_tokens"
                                                                          : "eval.max_new_tokens")(setting, result);
       }},
      {"temperature top_p top_k",
       [](const Setting& setting, Translation& result) {
         const std::string stage = result.value("stage");
         if (setting.value() == "-1") return result.LeaveOut(setting.origin, "is off");
         To((IsRl(stage) || stage == "gkd" ? "rl." : "eval.") + setting.name)(setting, result);
       }},
      {"init_weights", Map("tuning.init", {{"true", "lora"}, {"pissa", "pissa"}, {"olora", "olora"}})},
      {"early_stop_interval", To("eval.early_stopping")},
      {"metric_for_best_model", BestMetric},
      {"greater_is_better", Elsewhere()},
      {"sequence_parallel", To("parallel.sequence")},
  };
  for (RuleRow& row : RetrievalRules()) rules.push_back(std::move(row));
  return rules;
}

void FinishSwift(const Given& given, const std::string& stage, Translation& result) {
  result.Default("data.packing", "false", "ms-swift");
  if (!result.has("data.max_length")) {
    result.Warn("max_length", Concat("that of the model there, 2048 here; set data.max_length"));
  }
  if (const Setting* calls = given.Find("agent_template")) AgentTemplate(*calls, result);
  CheckBestMetric(given, result);
  SetPlaceholders(given, result);
  FinishSwiftModel(given, result);
  SetSwiftRewards(given, result);
  SetMethodDefaults(given, stage, result);
  FinishRetrieval(given, stage, result);
}

}  // namespace trireme
