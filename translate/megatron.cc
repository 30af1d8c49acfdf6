// pretrain_gpt.py of Megatron-LM and MindSpeed-LLM, and MindSpeed-LLM's posttrain_gpt.py. Defaults as
// megatron/training/arguments.py has them.
#include "translate/megatron.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/base/error.h"
#include "core/base/text.h"
#include "translate/model_shape.h"
#include "translate/trainer.h"

namespace trireme {
namespace {

bool IsInstruction(const Given& given) {
  return given.command == "posttrain_gpt" || given.IsOn("is_instruction_dataset");
}

std::string MegatronStage(const Given& given) { return given.Value("stage", IsInstruction(given) ? "sft" : "pt"); }

bool IsNumber(const std::string& text) {
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0';
}

// "0.3 a 0.7 b", or one prefix of a .bin.
void DataPath(const Setting& setting, Translation& result) {
  if (result.value("stage") != "pt") {
    result.Warn(
        setting.origin,
        "data that another system has tokenized for this stage is not read; name the JSON file it was made from");
    return result.Set("data.train", Join(setting.values, " "), setting.origin);
  }
  std::vector<std::string> sources;
  const bool weighted = setting.values.size() > 1 && setting.values.size() % 2 == 0 && IsNumber(setting.values.front());
  for (size_t i = 0; weighted && i < setting.values.size(); i += 2) {
    sources.push_back(Concat(setting.values[i + 1], ".bin@", setting.values[i]));
  }
  const std::string whole = Join(setting.values, " ");
  if (!weighted)
    sources.push_back(whole.find(' ') == std::string::npos && !whole.ends_with(".bin") ? whole + ".bin" : whole);
  result.Set("data.train", sources, setting.origin);
}

std::vector<RuleRow> OwnRules() {
  return {
      {ShapeFlags(), Elsewhere()},
      {"stage is_instruction_dataset is_pairwise_dataset", Elsewhere()},
      {"data_path", DataPath},
      {"tokenizer_name_or_path tokenizer_model", Elsewhere()},
      {"load", Elsewhere()},
      {"tokenizer_type", Only({"PretrainedFromHF", "HuggingFaceTokenizer", "NullTokenizer"},
                              "the tokenizer is that of a Hugging Face directory")},
      {"normalization", Only({"RMSNorm"}, "norms are RMSNorm")},
      {"position_embedding_type", Only({"rope"}, "positions are rotary")},
      {"squared_relu", Missing("mlps are gated")},
      {"lr_decay_iters lr_decay_samples train_samples lr_warmup_samples global_batch_size", Elsewhere()},
      {"eval_iters",
       [](const Setting& setting, Translation& result) {
         setting.off() ? result.Set("eval.every", std::string("0"), setting.origin)
                       : To("eval.batches")(setting, result);
       }},
      {"eval_interval",
       [](const Setting& setting, Translation& result) {
         if (!result.has("eval.every")) To("eval.every")(setting, result);
       }},
      {"lora_target_modules", SetAdapterTargets},
      {"lora_load", Missing("a Megatron checkpoint of adapters; tuning.adapters takes PEFT's")},
      {"lora_ckpt_filter save_lora_to_hf save_layer_by_layer enable_mg2hf_convert",
       NotNeeded("checkpoints hold what is trained")},
      {"pack neat_pack", IfOn("data.packing", "true")},
      {"reset_attention_mask reset_position_ids eod_mask_loss", NotNeeded("packed samples never attend to each other")},
      {"no_pad_to_seq_lengths variable_seq_lengths pad_to_multiple_of padded_samples append_eod attention_mask_type "
       "cp_attention_mask_type",
       NotNeeded("rows are as long as their samples need")},
      {"prompt_type hf_chat_template no_chat_template", NotNeeded("the tokenizer's own template is used")},
      {"no_shuffle", Opposite("data.shuffle")},
      {"moe_tp_extend_ep", Elsewhere()},
      {"enable_thinking",
       [](const Setting& setting, Translation& result) {
         const bool on = !setting.off();
         result.Set("data.template_values", Concat("enable_thinking=", on ? "true" : "false"), setting.origin);
       }},
      {"params_dtype", Only({"bf16", "torch.bfloat16"}, "model.dtype has bf16 and fp32")},
      {"enable_dsa_indexer index_topk index_n_heads index_head_dim use_sparse_flash_attn use_fused_lightning_indexer "
       "use_fused_lightning_indexer_loss indexer_loss_coeff index_topk_freq index_skip_topk_offset "
       "index_share_for_mtp_iteration "
       "no_use_sparse_c8_indexer",
       Missing("DeepSeek's sparse attention")},
      {"kv_compress compress_ratios compress_rope_theta enable_mhc hc_mult n_hash_layers o_lora_rank o_groups "
       "use_fused_mhc use_triton_mhc "
       "original_seq_len rope_factor sliding_window_size swiglu_limit",
       Missing("layers of DeepSeek-V4")},
      {"num_zero_experts enable_mla_scale_q_lora enable_mla_scale_kv_lora", Missing("layers of LongCat")},
      {"longrope_freqs_type short_factor long_factor short_mscale long_mscale", Missing("Phi's long rotary embedding")},
      {"moe_input_jitter_eps", Missing("routers have no noise")},
      {"hf_cfg_dir alternative_prompt evaluation_batch_size save_model_type load_model_type enable_mla_absorb "
       "max_batch_size fc_type o2_optimizer o2_gradient loss_compute_mode loss_chunk_size",
       NotNeeded("nothing here depends on it")},
      {"dpo_loss_type", Map("preference.loss", {{"sigmoid", "sigmoid"}, {"hinge", "hinge"}, {"ipo", "ipo"}})},
      {"mtp_num_layers",
       [](const Setting& setting, Translation& result) {
         if (!setting.off()) To("multi_token_prediction.depths")(setting, result);
       }},
  };
}

std::vector<RuleRow> PretrainRules() {
  std::vector<RuleRow> rules = OwnRules();
  for (RuleRow& row : MegatronRules()) rules.push_back(std::move(row));
  return rules;
}

int DataRanks(const Given& given, int world) {
  const double split = given.Number("tensor_model_parallel_size", 1) * given.Number("pipeline_model_parallel_size", 1) *
                       given.Number("context_parallel_size", 1);
  return std::max(1, static_cast<int>(world / split));
}

void SetSteps(const Given& given, int world, Translation& result) {
  const double micro = given.Number("micro_batch_size", 1);
  const double batch = given.Number("global_batch_size", micro * DataRanks(given, world));
  result.Set("run.global_batch", batch,
             given.Find("global_batch_size") ? "--global-batch-size" : "micro-batch-size x data-parallel ranks");
  if (given.Find("train_samples")) {
    if (given.Find("rampup_batch_size"))
      return result.Refuse("--train-samples", "with --rampup-batch-size; give --train-iters");
    result.Set("run.steps", std::floor(given.Number("train_samples", 0) / batch), "--train-samples over the batch");
  }
  const double warmup = given.Number("lr_warmup_samples", 0);
  if (warmup > 0) result.Set("optimizer.warmup_steps", std::ceil(warmup / batch), "--lr-warmup-samples over the batch");
  const double steps = std::strtod(result.value("run.steps", "0").c_str(), nullptr);
  const double decay = given.Find("lr_decay_samples") ? given.Number("lr_decay_samples", 0) / batch
                                                      : given.Number("lr_decay_iters", steps);
  if (decay != steps && result.value("optimizer.schedule") != "constant") {
    result.Refuse("--lr-decay-iters",
                  Concat("the rate decays over ", decay, " of ", steps, " steps; here over all of them"));
  }
}

void SetModel(const Given& given, const Surroundings& around, Translation& result) {
  const Setting* load = given.Find("load");
  const Setting* tokenizer = given.Find("tokenizer_name_or_path");
  if (tokenizer == nullptr) tokenizer = given.Find("tokenizer_model");
  const std::string family = FamilyOf(given, result);
  if (!around.model.empty()) {
    result.Set("model.path", around.model, "--model: config.json is made from the flags");
    result.Set("model.init", std::string("random"), "--model: a config.json without weights");
  } else if (load != nullptr && given.IsOn("enable_hf2mg_convert")) {
    result.Set("model.path", load->value(), load->origin);
  } else if (tokenizer != nullptr) {
    result.Set("model.path", tokenizer->value(), tokenizer->origin);
    if (load == nullptr) result.Set("model.init", std::string("random"), "no --load");
    if (load != nullptr) result.Warn(load->origin, "Megatron's checkpoint; here the weights are those of model.path");
  }
  if (result.has("model.path") && around.model.empty()) {
    result.Warn("model flags", Concat("the shape (", family,
                                      ") is that of model.path's config.json; --model DIR writes one from the flags"));
  }
}

void SetExperts(const Given& given, Translation& result) {
  if (given.Number("num_experts", 0) == 0) return;
  const std::string tensor = given.Value("tensor_model_parallel_size", "1");
  if (given.IsOn("moe_tp_extend_ep")) {
    result.Set("parallel.expert",
               given.Number("expert_model_parallel_size", 1) * given.Number("tensor_model_parallel_size", 1),
               "--expert-model-parallel-size x --tensor-model-parallel-size: --moe-tp-extend-ep");
    return result.Set("parallel.expert_tensor", std::string("1"), "--moe-tp-extend-ep");
  }
  result.Default("parallel.expert_tensor", tensor, "Megatron-LM, the tensor-parallel size");
}

void FinishPretrain(const Given& given, const Surroundings& around, const std::string& stage, Translation& result) {
  const std::string system = "Megatron-LM";
  SetModel(given, around, result);
  SetSteps(given, WorldOf(given, around), result);
  SetExperts(given, result);
  result.Default("tuning.kind", given.Find("lora_r") ? "lora" : "full", system);
  if (result.value("tuning.kind") == "lora") result.Default("tuning.dropout", "0", system);
  if (given.Find("hidden_dropout") == nullptr)
    result.Refuse("--hidden-dropout", "0.1 where the script says nothing; say 0");
  if (given.Find("attention_dropout") == nullptr)
    result.Refuse("--attention-dropout", "0.1 where the script says nothing; say 0");
  result.Default("optimizer.schedule", "linear", system);
  result.Default("optimizer.weight_decay", "0.01", system);
  result.Default("optimizer.beta2", "0.999", system);
  result.Default("parallel.zero", "0", system);
  result.Default("parallel.sequence", "false", system);
  result.Default("data.packing", stage == "pt" ? "true" : "false", system);
  result.Default("run.seed", "1234", system);
  result.Default("log.every", "100", system);
  if (!result.has("optimizer.lr")) result.Refuse("--lr", "no learning rate is given");
  FinishMegatron(given, static_cast<int>(given.Number("num_layers", 0)), result);
  FinishTrainer(given, "Megatron-LM", result);
}

}  // namespace

const System& MegatronSystem() {
  static const System system = {"megatron", "Megatron-LM or MindSpeed-LLM", MegatronStage, PretrainRules,
                                FinishPretrain};
  return system;
}

}  // namespace trireme
