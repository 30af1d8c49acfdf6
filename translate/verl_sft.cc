// verl: `torchrun -m verl.trainer.sft_trainer key=value …`. Rules and defaults as
// verl/trainer/config/sft_trainer_engine.yaml and the files that it names have them.
#include <cstdlib>

#include "core/base/error.h"
#include "translate/trainer.h"
#include "translate/verl_common.h"

namespace trireme {
namespace {

std::string VerlSftStage(const Given&) { return "sft"; }

void Files(const Setting& setting, Translation& result) {
  if (setting.off()) return;
  result.Set(setting.name == "data.train_files" ? "data.train" : "data.valid", setting.values, setting.origin);
}

void MessagesKey(const Setting& setting, Translation& result) {
  if (setting.value() == "messages") return result.LeaveOut(setting.origin, "is so here");
  result.Set("data.columns", Concat(setting.value(), "=messages"), setting.origin);
}

void Truncation(const Setting& setting, Translation& result) {
  if (setting.value() == "right") return result.Set("data.over_length", std::string("truncate"), setting.origin);
  if (setting.value() == "left")
    return result.Refuse(setting.origin, "the end of long samples is never the part that is kept");
  result.Warn(setting.origin, "a sample that is too long ends the run there, and is dropped and counted here");
}

// -1, steps or after_each_epoch.
Rule Every(const std::string& key) {
  return [key](const Setting& setting, Translation& result) {
    if (setting.value() == "after_each_epoch") {
      result.Set(key, std::string("0"), setting.origin);
      return result.Set(key + "_epoch", std::string("true"), setting.origin);
    }
    NeverAsMinusOne(key)(setting, result);
  };
}

void Split(const Setting& setting, Translation& result) {
  if (setting.value() == "1") return result.LeaveOut(setting.origin, "is off");
  result.Set("parallel.context", setting.value(), setting.origin);
  result.Set("parallel.context_method", std::string("ulysses"), setting.origin);
}

std::vector<RuleRow> DataRows() {
  return {
      {"data.train_files data.val_files", Files},
      {"data.messages_key", MessagesKey},
      {"data.tools_key", Only({"tools"}, "the column is named tools")},
      {"data.enable_thinking_default data.enable_thinking_key", NotNeeded("the tokenizer's own template decides")},
      {"data.train_batch_size", To("run.global_batch")},
      {"data.micro_batch_size_per_gpu", To("run.micro_batch")},
      {"data.max_length", To("data.max_length")},
      {"data.truncation", Truncation},
      {"data.use_dynamic_bsz data.max_token_len_per_gpu", Elsewhere()},
      {"data.train_max_samples", Elsewhere()},
      {"data.val_max_samples", Differs("evaluations cover all of data.valid")},
      {"data.custom_cls.path", Missing("data sets in Python")},
      {"data.apply_chat_template_kwargs.enable_thinking",
       [](const Setting& setting, Translation& result) {
         result.Set("data.template_values", Concat("enable_thinking=", setting.off() ? "false" : "true"),
                    setting.origin);
       }},
      {"data.apply_chat_template_kwargs.*", Missing("it has no key here; data.template_values takes variables")},
      {"data.*", NotNeeded("nothing here depends on it")},
  };
}

std::vector<RuleRow> EngineRows() {
  return {
      {"engine", Only({"fsdp", "megatron", "automodel"}, "layouts of FSDP and Megatron are translated")},
      {"optim model", NotNeeded("the defaults of verl are written out")},
      {"engine.strategy engine.distributed_strategy",
       Only({"fsdp", "fsdp2", "megatron"}, "layouts of FSDP and Megatron are translated")},
      {"engine.ulysses_sequence_parallel_size", Split},
      {"engine.fsdp_size", Only({"-1"}, "parallel.replicas says how often the ranks hold what zero shards")},
      {"engine.tp_size", To("parallel.tensor")},
      {"engine.pp_size", To("parallel.pipeline")},
      {"engine.cp_size", To("parallel.context")},
      {"engine.ep_size", To("parallel.expert")},
      {"engine.activation_checkpointing",
       [](const Setting& setting, Translation& result) {
         result.Set("memory.recompute", std::string(setting.off() ? "none" : "full"), setting.origin);
       }},
      {"engine.enable_fp8", Missing("model.fp8: rows has products in FP8; there is no other recipe")},
      {"engine.offload_policy", IfOn("memory.offload_parameters", "true")},
      {"engine.full_determinism", IfOn("run.deterministic", "true")},
  };
}

std::vector<RuleRow> VerlSftRules() {
  std::vector<RuleRow> rules = {
      {"trainer.save_freq", Every("save.every")},
      {"trainer.test_freq", Every("eval.every")},
      {"model.mtp.enable model.mtp.enable_train model.mtp.mtp_loss_scaling_factor", Elsewhere()},
      {"model.mtp.detach_encoder", Missing("the loss of the MTP layers reaches the decoder, too")},
      {"checkpoint.* profiler.* global_profiler.*", NotNeeded("nothing here depends on it")},
  };
  for (const auto& rows : {DataRows(), EngineRows(), VerlMegatronRows("engine."), VerlOptimizerRows("optim."),
                           VerlModelRows("model."), VerlTrainerRows()})
    rules.insert(rules.end(), rows.begin(), rows.end());
  return rules;
}

// Micro batches by tokens are rows that several samples are packed into.
void SetSftBatch(const Given& given, Translation& result) {
  if (given.IsOn("data.use_dynamic_bsz", true)) {
    result.Warn("data.use_dynamic_bsz", "micro batches by tokens there; run.micro_batch sequences here");
    result.Set("run.micro_batch", std::string("1"), "data.use_dynamic_bsz");
  }
  const double samples = given.Number("data.train_max_samples", -1);
  const Setting* files = given.Find("data.train_files");
  if (samples <= 0 || files == nullptr) return;
  if (files->values.size() != 1) {
    return result.Refuse("data.train_max_samples", "of several files together; NAME#N takes N of each");
  }
  result.Set("data.train", Concat(files->value(), "#", samples), Concat(files->origin, ", data.train_max_samples"));
}

void SetMtp(const Given& given, Translation& result) {
  if (!given.IsOn("model.mtp.enable") || !given.IsOn("model.mtp.enable_train", true)) return;
  result.Set("multi_token_prediction.depths", std::string("1"), "model.mtp.enable");
  result.Warn("model.mtp.enable", "all of the model's MTP layers there; one is taken here");
  if (given.Find("model.mtp.mtp_loss_scaling_factor"))
    result.Set("multi_token_prediction.loss_weight", given.Number("model.mtp.mtp_loss_scaling_factor", 0.1),
               "model.mtp.mtp_loss_scaling_factor");
}

void FinishVerlSft(const Given& given, const Surroundings&, const std::string&, Translation& result) {
  const std::string system = "verl";
  const std::string engine = given.Value("engine", "fsdp");
  SetSftBatch(given, result);
  SetMtp(given, result);
  result.Default("tuning.kind", "full", system);
  if (result.value("tuning.kind") == "lora") {
    result.Default("tuning.alpha", engine == "megatron" ? "32" : "16", system);
    result.Default("tuning.dropout", "0", system);
  }
  result.Default("optimizer.lr", engine == "automodel" ? "1e-5" : "1e-3", system);
  if (engine == "automodel") {
    result.Default("optimizer.schedule", "cosine", system);
    if (given.Find("optim.min_lr_ratio") == nullptr)
      result.Refuse("optim.min_lr_ratio", "0.01 of the rate where the run says nothing; say it");
  }
  FinishVerlOptimizer(given, "optim.", result);
  result.Default("run.global_batch", "256", system);
  result.Default("run.micro_batch", "4", system);
  result.Default("run.epochs", "4", system);
  result.Default("save.every", "0", system);
  result.Default("save.keep", "0", system);
  result.Default("run.seed", "1", system);
  result.Default("data.max_length", "1024", system);
  result.Default("data.packing", "false", system);
  result.Default("parallel.zero", engine == "megatron" ? "1" : "3", system);
  result.Default("memory.recompute", engine == "fsdp" ? "full" : "none", system);
  if (given.Find("data.truncation") == nullptr) Truncation({"data.truncation", {"error"}, "data.truncation"}, result);
  const bool evaluates = result.value("eval.every", "0") != "0" || result.has("eval.every_epoch");
  if (result.has("data.valid") && !evaluates)
    result.Warn("trainer.test_freq", "data.valid is evaluated after the last step there; here as eval.every says");
  result.Warn("chat template", "applied to each message by itself there, to the conversation here");
  FinishTrainer(given, "verl", result);
}

}  // namespace

const System& VerlSftSystem() {
  static const System system = {"verl-sft", "verl's SFT trainer", VerlSftStage, VerlSftRules, FinishVerlSft};
  return system;
}

}  // namespace trireme
