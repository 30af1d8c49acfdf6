// The options that `swift` and `megatron` of ms-swift share.
#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/config/yaml_document.h"
#include "translate/megatron.h"
#include "translate/model_names.h"
#include "translate/swift.h"
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

void Rope(const Setting& setting, Translation& result) {
  const YAML::Node options = ParseYaml(setting.value(), {.name = "rope_scaling"});
  if (!options.IsMap()) return result.Refuse(setting.origin, "write model.rope.kind with model.rope.factor");
  for (const auto& entry : options) {
    const std::string name = entry.first.Scalar(), value = entry.second.IsScalar() ? entry.second.Scalar() : "";
    if (name == "type" || name == "rope_type") result.Set("model.rope.kind", value, setting.origin);
    if (name == "factor") result.Set("model.rope.factor", value, setting.origin);
    if (name == "original_max_position_embeddings") result.Set("model.rope.original_length", value, setting.origin);
  }
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

// Adapters on all linear layers of the parts that are not frozen.
void SetTargetsOfParts(const Given& given, bool vision, bool aligner, Translation& result) {
  const std::string origin = "freeze_vit, freeze_aligner, freeze_llm";
  const std::string targets = given.Value("target_modules", "all-linear");
  if (targets != "all-linear") {
    return result.Refuse(origin, Concat("adapters outside the language model on ", targets, "; write tuning.targets"));
  }
  std::vector<std::string> parts;
  if (!given.IsOn("freeze_llm")) parts.push_back("all-linear");
  if (vision) parts.push_back("vision");
  if (aligner) parts.push_back("aligner");
  if (parts.empty()) return result.Refuse(origin, "nothing is left to train");
  result.Set("tuning.targets", parts, origin);
  if (given.Number("lora_dropout", 0.05) == 0) return;
  result.Set("tuning.dropout", std::string("0"), origin);
  result.Warn("lora_dropout", "adapters of the vision tower have no dropout here, and so none has");
}

// Settings of the image processor; others belong to models that are not read here.
void ProcessorSettings(const Setting& setting, Translation& result) {
  const YAML::Node options = ParseYaml(setting.value(), {.name = setting.name});
  if (!options.IsMap()) return result.Refuse(setting.origin, "wanted a mapping");
  for (const auto& entry : options) {
    const std::string name = entry.first.Scalar();
    if (name == "max_pixels" || name == "min_pixels") {
      result.Set("model." + name, entry.second.Scalar(), setting.origin);
    } else {
      result.Refuse(setting.origin, Concat(name, " has no key here"));
    }
  }
}

// The format of tool calls; that of a tokenizer's own template is the same where ms-swift takes it by default.
void AgentTemplate(const Setting& setting, Translation& result) {
  const std::string model = result.value("model.path");
  const bool qwen = model.find("Qwen2.5") != std::string::npos || model.find("Qwen3-") != std::string::npos;
  if (setting.value() != "hermes" || !qwen)
    return result.Refuse(setting.origin, "conversations are written by the tokenizer's own template");
  result.LeaveOut(setting.origin, "the tokenizer's own template writes tool calls so");
}

// Where answers are sampled they would end there.
void StopWords(const Setting& setting, Translation& result) {
  const std::string stage = result.value("stage");
  IsRl(stage) || stage == "gkd" ? result.Refuse(setting.origin, "completions end at an end token")
                                : result.LeaveOut(setting.origin, "no answers are sampled");
}

void SetFrozenParts(const Given& given, Translation& result) {
  const bool named = given.Find("freeze_vit") || given.Find("freeze_aligner") || given.Find("freeze_llm");
  if (!named && !NamesSeeingModel(result.value("model.path"))) return;
  const bool vision = given.IsOn("freeze_vit", true), aligner = given.IsOn("freeze_aligner", true);
  if (result.value("tuning.kind") == "lora") {
    if (vision && aligner && !given.IsOn("freeze_llm")) return;  // as it is here
    return SetTargetsOfParts(given, !vision, !aligner, result);
  }
  std::vector<std::string> parts;
  if (vision) parts.push_back("vision");
  if (aligner) parts.push_back("aligner");
  if (given.IsOn("freeze_llm")) parts.push_back("language");
  if (!parts.empty()) result.Set("tuning.freeze", parts, "freeze_vit, freeze_aligner, freeze_llm");
}

void SetRatesOfParts(const Given& given, Translation& result) {
  std::vector<std::string> rates;
  for (const auto& [name, part] : {std::pair("vit_lr", "vision"), std::pair("aligner_lr", "aligner")}) {
    const double rate = given.Number(name, 0), whole = std::strtod(result.value("optimizer.lr", "0").c_str(), nullptr);
    if (rate > 0 && whole > 0) rates.push_back(Concat(part, "=", rate / whole));
  }
  if (!rates.empty()) result.Set("optimizer.lr_by_name", rates, "vit_lr and aligner_lr over the learning rate");
}

void SetQuantisation(const Given& given, Translation& result) {
  const Setting* bits = given.Find("quant_bits");
  if (bits == nullptr || bits->off()) return;
  const std::string method = given.Value("quant_method", "bnb");
  if (method != "bnb")
    return result.Refuse(bits->origin, Concat("model.quantise packs as bitsandbytes does, not as ", method));
  if (bits->value() == "8") return result.Set("model.quantise", std::string("int8"), bits->origin);
  if (bits->value() != "4") return result.Refuse(bits->origin, "model.quantise has 4 and 8 bits");
  result.Set("model.quantise", given.Value("bnb_4bit_quant_type", "nf4"), bits->origin);
  result.Set("model.quantise_nested", std::string(given.IsOn("bnb_4bit_use_double_quant", true) ? "true" : "false"),
             bits->origin);
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
      {"tuner_type train_type", Map("tuning.kind", {{"full", "full"}, {"lora", "lora"}})},
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
      {"rope_scaling", Rope},
      {"max_model_len", Elsewhere()},
      {"loss_type", LossType},
      {"use_chat_template",
       [](const Setting& setting, Translation& result) {
         const bool plain = setting.off() && result.value("stage") != "pt";
         plain ? result.Refuse(setting.origin, "conversations without a chat template; give data.template")
               : result.LeaveOut(setting.origin, "is so here");
       }},
      {"template", Missing("a template by name; data.template takes a file, and the tokenizer's own is the default")},
      {"template_mode", Missing("it has no key here")},
      {"model_kwargs", ProcessorSettings},
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
  SetPlaceholders(given, result);
  SetFrozenParts(given, result);
  SetRatesOfParts(given, result);
  SetQuantisation(given, result);
  SetSwiftRewards(given, result);
  SetMethodDefaults(given, stage, result);
  FinishRetrieval(given, stage, result);
}

}  // namespace trireme
