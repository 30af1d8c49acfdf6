// LLaMA-Factory: `llamafactory-cli train RUN.yaml`. Rules and defaults as src/llamafactory/hparams has them.
#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/config/yaml_document.h"
#include "translate/megatron.h"
#include "translate/model_names.h"
#include "translate/trainer.h"

namespace trireme {
namespace {

std::string LlamaFactoryStage(const Given& given) {
  const std::string stage = given.Value("stage", "sft"), loss = given.Value("pref_loss", "sigmoid");
  if (stage == "dpo" && (loss == "orpo" || loss == "simpo")) return loss;
  return stage;
}

std::vector<std::string> Names(const Given& given, const std::string& name) {
  std::vector<std::string> names;
  const Setting* setting = given.Find(name);
  if (setting == nullptr || setting->off()) return names;
  for (const std::string& value : setting->values) {
    std::istringstream stream(value);
    for (std::string one; std::getline(stream, one, ',');) {
      one.erase(0, one.find_first_not_of(' '));
      if (!one.empty()) names.push_back(one);
    }
  }
  return names;
}

void SetData(const Given& given, Translation& result) {
  const Setting* limit = given.Find("max_samples");
  const Setting* weights = given.Find("interleave_probs");
  const std::vector<std::string> probabilities = Names(given, "interleave_probs");
  for (const auto& [theirs, ours] : {std::pair("dataset", "data.train"), std::pair("eval_dataset", "data.valid")}) {
    std::vector<std::string> names = Names(given, theirs);
    if (names.empty()) continue;
    for (size_t i = 0; i < names.size(); ++i) {
      if (limit != nullptr && !limit->off()) names[i] += "#" + limit->value();
      if (i < probabilities.size() && names.size() == probabilities.size()) names[i] += "@" + probabilities[i];
    }
    result.Set(ours, names, given.Find(theirs)->origin);
  }
  if (limit != nullptr && !limit->off()) {
    result.Warn(limit->origin, "entries with fewer samples are used once there and repeated here; take #N from those");
  }
  if (weights != nullptr && probabilities.size() != Names(given, "dataset").size()) {
    result.Refuse(weights->origin, "wanted one for each entry of dataset");
  }
  result.Set("data.dataset_info", given.Value("dataset_dir", "data"),
             given.Find("dataset_dir") ? "dataset_dir" : "default of LLaMA-Factory");
}

void ValidSize(const Setting& setting, Translation& result) {
  const double size = std::strtod(setting.value().c_str(), nullptr);
  if (size >= 1) return result.Refuse(setting.origin, "a number of samples; data.valid_ratio is a fraction");
  if (size > 0) result.Set("data.valid_ratio", size, setting.origin);
}

void TemplateName(const Setting& setting, Translation& result) {
  static const std::vector<std::string> own = {"default", "alpaca", "vicuna", "fewshot", "empty", "cpm", "ziya"};
  if (std::ranges::find(own, setting.value()) != own.end()) {
    return result.Refuse(setting.origin, "data.template takes a file; the tokenizer's own is the default");
  }
  result.LeaveOut(setting.origin, "the tokenizer's own template is used");
}

void Quantisation(const Setting& setting, Translation& result) {
  if (setting.off()) return;
  if (setting.value() == "4") return result.Set("model.quantise", std::string("nf4"), setting.origin);
  if (setting.value() == "8") return result.Set("model.quantise", std::string("int8"), setting.origin);
  result.Refuse(setting.origin, "model.quantise has 4 and 8 bits");
}

// torchao's row-wise recipe.
void Fp8Products(const Setting& setting, Translation& result) {
  if (setting.off()) return result.LeaveOut(setting.origin, "is so here");
  result.Set("model.fp8", std::string("rows"), setting.origin);
  result.Warn(setting.origin, "scales are powers of two here, and the weights' gradients are products in model.dtype");
}

// Experts that KTransformers packs to 8 bits are others than those in bf16.
void HostExperts(const Setting& setting, Translation& result) {
  const YAML::Node options = ParseYaml(setting.value(), {.name = setting.name});
  const YAML::Node format = options.IsMap() ? options["kt_expert_weight_format"] : YAML::Node();
  if (format && format.Scalar() != "bf16") return result.Refuse(setting.origin, "experts packed by KTransformers");
  result.LeaveOut(setting.origin, "the ranks compute the experts here");
}

void PreferenceLoss(const Setting& setting, Translation& result) {
  const std::string stage = result.value("stage");
  if (stage == "orpo" || stage == "simpo") return;
  if (stage == "kto") return result.LeaveOut(setting.origin, "stage kto has its own");
  Map("preference.loss", {{"sigmoid", "sigmoid"}, {"hinge", "hinge"}, {"ipo", "ipo"}, {"kto_pair", ""}, {"bco", ""}})(
      setting, result);
  if (setting.value() == "kto_pair" || setting.value() == "bco")
    result.Refuse(setting.origin, "preference.loss has no such loss");
}

void Layers(const Setting& setting, Translation& result) {
  const int layers = std::atoi(setting.value().c_str());
  if (layers < 0) return result.Refuse(setting.origin, "the first layers; tuning.last_layers counts from the end");
  result.Set("tuning.last_layers", setting.value(), setting.origin);
}

std::vector<RuleRow> OwnLlamaFactoryRules() {
  return {
      {"stage dataset eval_dataset max_samples interleave_probs dataset_dir", Elsewhere()},
      {"do_train", NotNeeded("trireme train does")},
      {"do_predict do_sample temperature top_p top_k num_beams max_new_tokens repetition_penalty length_penalty",
       Elsewhere()},
      {"finetuning_type", Map("tuning.kind", {{"full", "full"}, {"lora", "lora"}, {"freeze", "freeze"}})},
      {"lora_target",
       [](const Setting& setting, Translation& result) {
         setting.value() == "all" ? result.Set("tuning.targets", std::string("all-linear"), setting.origin)
                                  : ListTo("tuning.targets")(setting, result);
       }},
      {"additional_target", ListTo("tuning.modules_to_save")},
      {"freeze_trainable_layers", Layers},
      {"freeze_trainable_modules",
       [](const Setting& setting, Translation& result) { ListTo("tuning.targets")(setting, result); }},
      {"freeze_extra_modules", ListTo("tuning.modules_to_save")},
      {"freeze_vision_tower freeze_multi_modal_projector freeze_language_model", Elsewhere()},
      {"pissa_init", IfOn("tuning.init", "pissa")},
      {"use_dft_loss", IfOn("loss.kind", "dft")},
      {"pissa_iter",
       [](const Setting& setting, Translation& result) {
         result.Set("tuning.pissa_niter", std::string(setting.value() == "-1" ? "0" : setting.value()), setting.origin);
       }},
      {"fp8", Fp8Products},
      {"fp8_backend", Only({"auto", "torchao"}, "model.fp8: rows is torchao's row-wise recipe; there is no other")},
      {"fp8_enable_fsdp_float8_all_gather", NotNeeded("weights are gathered in model.dtype")},
      {"pure_bf16", IfOn("optimizer.masters", "none")},
      {"quantization_bit", Quantisation},
      {"quantization_method", Only({"bnb", "bitsandbytes"}, "model.quantise packs as bitsandbytes does")},
      {"double_quantization", To("model.quantise_nested")},
      {"template", TemplateName},
      {"cutoff_len", To("data.max_length")},
      {"val_size", ValidSize},
      {"enable_thinking",
       [](const Setting& setting, Translation& result) {
         result.Set("data.template_values", Concat("enable_thinking=", setting.off() ? "false" : "true"),
                    setting.origin);
       }},
      {"train_on_prompt", IfOn("data.loss", "all")},
      {"mask_history", IfOn("data.loss", "last_round")},
      {"packing neat_packing", Elsewhere()},
      {"tokenized_path", Differs("data that LLaMA-Factory has tokenized is not read; it is tokenized again")},
      {"disable_shuffling", Opposite("data.shuffle")},
      {"disable_gradient_checkpointing",
       [](const Setting& setting, Translation& result) {
         result.Set("memory.recompute", std::string(setting.off() ? "full" : "none"), setting.origin);
       }},
      {"pref_loss", PreferenceLoss},
      {"use_muon", IfOn("optimizer.name", "muon")},
      {"flash_attn", NotNeeded("fused operators are used where available")},
      {"ref_model", To("reference")},
      {"reward_model",
       [](const Setting& setting, Translation& result) {
         result.Set("rl.rewards", Concat("model:", setting.value()), setting.origin);
       }},
      {"rope_scaling",
       Map("model.rope.kind", {{"linear", "linear"}, {"dynamic", "dynamic"}, {"yarn", "yarn"}, {"llama3", "llama3"}})},
      {"use_kt",
       Differs("the experts, and what adapters they have, are on the host's cores there, and on the ranks here")},
      {"kt_config", HostExperts},
      {"kt_weight_path kt_non_expert_weight_path",
       Missing("experts packed by KTransformers; model.path takes weights in bf16")},
      {"kt_cpu_activation", NotNeeded("memory.recompute decides")},
      {"video_max_pixels video_min_pixels video_fps video_maxlen", NotNeeded("videos are refused where data has them")},
      {"fsdp",
       [](const Setting& setting, Translation& result) {
         const bool all = setting.value().find("full_shard") != std::string::npos,
                    some = setting.value().find("shard_grad_op") != std::string::npos;
         if (!all && !some) return result.Refuse(setting.origin, "parallel.zero: 3 is full_shard, 2 shard_grad_op");
         result.Set("parallel.zero", std::string(all ? "3" : "2"), setting.origin);
         if (setting.value().find("offload") != std::string::npos)
           result.Set("memory.offload_parameters", std::string("true"), setting.origin);
       }},
      {"fsdp_config", NotNeeded("parallel.zero decides")},
      {"lora_alpha", To("tuning.alpha")},
      {"use_packed_sequences", IfOn("data.packing", "true")},
      {"mixed_precision", Only({"bf16", "bf16_mixed"}, "model.dtype has bf16 and fp32")},
      {"export_hf_on_finish", NotNeeded("final/ is a Hugging Face directory")},
  };
}

// Megatron's names come with its mcore_adapter.
std::vector<RuleRow> LlamaFactoryRules() {
  std::vector<RuleRow> rules = WithTrainerRules(OwnLlamaFactoryRules());
  for (RuleRow& row : MegatronRules()) rules.push_back(std::move(row));
  return rules;
}

void SetTuning(const Given& given, Translation& result) {
  const std::string system = "LLaMA-Factory";
  result.Default("tuning.kind", "lora", system);
  if (result.value("tuning.kind") == "lora") {
    const double rank = given.Number("lora_rank", 8);
    result.Default("tuning.alpha", std::to_string(static_cast<int>(2 * rank)), system);
    result.Default("tuning.dropout", "0", system);
  }
  if (result.value("tuning.kind") == "freeze") {
    result.Default("tuning.targets", "all", system);
    result.Default("tuning.last_layers", "2", system);
  }
  const bool sees = NamesSeeingModel(result.value("model.path"));
  if (!sees || result.value("tuning.kind") != "full") return;
  std::vector<std::string> parts;
  if (given.IsOn("freeze_vision_tower", true)) parts.push_back("vision");
  if (given.IsOn("freeze_multi_modal_projector", true)) parts.push_back("aligner");
  if (given.IsOn("freeze_language_model")) parts.push_back("language");
  if (!parts.empty()) result.Set("tuning.freeze", parts, "freeze_vision_tower, freeze_multi_modal_projector");
}

void SetPacking(const Given& given, const std::string& stage, Translation& result) {
  const bool packs = given.IsOn("packing", stage == "pt") || given.IsOn("neat_packing");
  const Setting* packing = given.Find("packing");
  result.Set("data.packing", std::string(packs ? "true" : "false"),
             packing ? packing->origin : "default of LLaMA-Factory");
  if (packs && !given.IsOn("neat_packing")) {
    result.Warn("packing", "samples in a row attend to each other there without neat_packing, never here");
  }
}

// Answers are sampled there as these options say, also where a run only evaluates.
void SetAnswers(const Given& given, Translation& result) {
  const bool predicts = given.IsOn("do_predict");
  if (predicts) result.Set("eval.generate", std::string("true"), given.Find("do_predict")->origin);
  if (result.value("eval.generate") != "true") return;
  const std::string system = "LLaMA-Factory";
  if (given.Number("num_beams", 1) != 1)
    result.Refuse(given.Find("num_beams")->origin, "answers are not searched for by beams");
  const bool samples = given.IsOn("do_sample", true);
  for (const auto& [name, otherwise] :
       {std::pair("temperature", "0.95"), std::pair("top_p", "0.7"), std::pair("top_k", "50")}) {
    const Setting* setting = given.Find(name);
    const std::string key = Concat("eval.", name);
    if (samples && setting != nullptr) To(key)(*setting, result);
    if (samples && setting == nullptr) result.Default(key, otherwise, system);
  }
  if (const Setting* length = given.Find("max_new_tokens")) To("eval.max_new_tokens")(*length, result);
  result.Default("eval.max_new_tokens", "1024", system);
  if (const Setting* penalty = given.Find("repetition_penalty")) To("eval.repetition_penalty")(*penalty, result);
  if (!predicts) return;
  result.Set("eval.batch", given.Number("per_device_eval_batch_size", 8), "per_device_eval_batch_size");
  result.Warn("do_predict",
              "start this file with trireme evaluate, whose --generate writes the answers; nothing is trained");
}

void FinishLlamaFactory(const Given& given, const Surroundings& around, const std::string& stage, Translation& result) {
  const std::string system = "LLaMA-Factory";
  SetData(given, result);
  SetTuning(given, result);
  SetPacking(given, stage, result);
  SetAnswers(given, result);
  result.Default("optimizer.lr", "5e-5", system);
  result.Default("optimizer.schedule", "linear", system);
  result.Default("optimizer.weight_decay", "0", system);
  result.Default("optimizer.beta2", "0.999", system);
  result.Default("run.epochs", "3", system);
  result.Default("data.max_length", "2048", system);
  result.Default("data.over_length", "truncate", system);
  result.Default("parallel.zero", "0", system);
  result.Default("memory.recompute", "full", system);
  result.Default("log.every", "500", system);
  if (stage == "simpo") result.Default("preference.cpo_alpha", "0", system);
  if (stage != "pt") result.Warn("cutoff_len", "prompt and answer are cut in proportion there, at the end here");
  const int world = WorldOf(given, around);
  if (around.world == 0 && world == 1)
    result.Warn("ranks", "counted as 1; --world N for more, which multiplies run.global_batch");
  const double split = given.Number("tensor_model_parallel_size", 1) * given.Number("pipeline_model_parallel_size", 1) *
                       given.Number("context_parallel_size", 1);
  FinishMegatron(given, 0, result);
  SetBatch(given, world, {.per_device = 8, .accumulation = 1, .shared_by = static_cast<int>(split)}, result);
  SetSavesAndEvaluations(given, false, result);
  FinishTrainer(given, "LLaMA-Factory", result);
}

}  // namespace

const System& LlamaFactorySystem() {
  static const System system = {"llamafactory", "LLaMA-Factory", LlamaFactoryStage, LlamaFactoryRules,
                                FinishLlamaFactory};
  return system;
}

}  // namespace trireme
