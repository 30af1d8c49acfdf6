#include "translate/verl_common.h"

#include <cstdlib>

#include "core/base/error.h"
#include "translate/trainer.h"

namespace trireme {
namespace {

void Loggers(const Setting& setting, Translation& result) {
  std::vector<std::string> names;
  for (const std::string& value : setting.values) {
    if (IsReporter(value)) names.push_back(value);
  }
  names.empty() ? result.LeaveOut(setting.origin, "log.jsonl and TensorBoard's events are always written")
                : result.Set("log.report_to", names, setting.origin);
}

void Betas(const Setting& setting, Translation& result) {
  if (setting.values.size() != 2) return result.Refuse(setting.origin, "wanted two numbers");
  result.Set("optimizer.beta1", setting.values[0], setting.origin);
  result.Set("optimizer.beta2", setting.values[1], setting.origin);
}

void VerlWarmupSteps(const Setting& setting, Translation& result) {
  if (std::strtod(setting.value().c_str(), nullptr) <= 0) return result.LeaveOut(setting.origin, "is off");
  To("optimizer.warmup_steps")(setting, result);
  result.Remove("optimizer.warmup");  // steps win over the ratio there
}

void VerlWarmupRatio(const Setting& setting, Translation& result) {
  if (!result.has("optimizer.warmup_steps")) To("optimizer.warmup")(setting, result);
}

void Rank(const Setting& setting, Translation& result) {
  if (setting.off()) return;
  result.Set("tuning.kind", std::string("lora"), setting.origin);
  result.Set("tuning.rank", setting.value(), setting.origin);
}

}  // namespace

std::string In(const std::string& section, const std::string& names) {
  std::string all = section;
  for (const char c : names) all += c == ' ' ? " " + section : std::string(1, c);
  return all;
}

Rule NeverAsMinusOne(const std::string& key) {
  return [key](const Setting& setting, Translation& result) {
    if (setting.off()) return result.LeaveOut(setting.origin, "is off");
    const bool never = std::strtod(setting.value().c_str(), nullptr) < 0;
    result.Set(key, std::string(never ? "0" : setting.value()), setting.origin);
  };
}

void VerlVirtualStages(const Setting& setting, Translation& result) {
  if (setting.off() || setting.value() == "1") return result.LeaveOut(setting.origin, "is off");
  result.Set("parallel.virtual_stages", setting.value(), setting.origin);
  result.Set("parallel.schedule", std::string("interleaved"), setting.origin);
}

std::vector<RuleRow> VerlOptimizerRows(const std::string& section) {
  return {
      {section + "lr", To("optimizer.lr")},
      {section + "weight_decay", To("optimizer.weight_decay")},
      {section + "clip_grad", To("optimizer.clip")},
      {section + "betas", Betas},
      {section + "lr_warmup_steps", VerlWarmupSteps},
      {section + "lr_warmup_steps_ratio", VerlWarmupRatio},
      {In(section, "lr_scheduler_type warmup_style lr_decay_style"),
       Map("optimizer.schedule", {{"constant", "constant"}, {"cosine", "cosine"}, {"linear", "linear"}})},
      {section + "num_cycles", Only({"0.5"}, "a wave of another length; the schedule cosine has half a wave")},
      {section + "min_lr_ratio", Elsewhere()},
      {section + "min_lr", To("optimizer.min_lr")},
      {In(section, "lr_warmup_init init_lr_ratio"),
       Differs("the rate rises from 0, by one increment in the first step")},
      {section + "lr_decay_steps", Missing("the rate decays over all steps here")},
      {section + "total_training_steps", NotNeeded("run.steps and run.epochs decide")},
      {section + "optimizer",
       Map("optimizer.name", {{"AdamW", "adamw"}, {"adam", "adamw"}, {"Adam", "adamw"}, {"FusedAdam", "adamw"}})},
      {In(section,
          "optimizer_impl zero_indexed_step use_checkpoint_opt_param_scheduler master_weights "
          "main_params_dtype main_grads_dtype use_precision_aware_optimizer"),
       NotNeeded("nothing here depends on it")},
      {section + "store_param_remainders", IfOn("optimizer.masters", "split")},
      {In(section, "exp_avg_dtype exp_avg_sq_dtype"),
       Map("optimizer.moments", {{"bf16", "bf16"}, {"fp32", "fp32"}, {"bfloat16", "bf16"}, {"float32", "fp32"}})},
      {section + "override_optimizer_config.optimizer_cpu_offload", IfOn("memory.offload_optimizer", "true")},
      {section + "override_optimizer_config.*", NotNeeded("optimizer.masters and optimizer.moments decide")},
      {section + "weight_decay_incr_style", Only({"constant"}, "the decay is constant")},
      {section + "*", Missing("it has no key here")},
  };
}

std::vector<RuleRow> VerlMegatronRows(const std::string& section) {
  const std::string change = section + "override_transformer_config.";
  return {
      {section + "tensor_model_parallel_size", To("parallel.tensor")},
      {section + "pipeline_model_parallel_size", To("parallel.pipeline")},
      {section + "context_parallel_size", To("parallel.context")},
      {section + "expert_model_parallel_size", To("parallel.expert")},
      {section + "expert_tensor_parallel_size", To("parallel.expert_tensor")},
      {section + "sequence_parallel", To("parallel.sequence")},
      {section + "virtual_pipeline_model_parallel_size", VerlVirtualStages},
      {change + "recompute_granularity",
       Map("memory.recompute", {{"full", "full"}, {"selective", "selective"}, {"null", ""}, {"none", "none"}})},
      {change + "moe_aux_loss_coeff", To("experts.balance_coefficient")},
      {change + "moe_z_loss_coeff", To("experts.z_coefficient")},
      {change + "moe_token_dispatcher_type",
       Map("experts.dispatch", {{"alltoall", "all_to_all"}, {"flex", "all_to_all"}, {"allgather", "all_gather"}})},
      {In(change,
          "num_layers_in_first_pipeline_stage num_layers_in_last_pipeline_stage pipeline_model_parallel_layout"),
       Differs("stages are balanced by their cost; parallel.stage_layers gives others")},
      {change + "*",
       NotNeeded("fused operators are used where available; memory.recompute decides what is recomputed")},
      {section + "dtype", Only({"bfloat16", "bf16"}, "fp16 is not supported; use bf16")},
      {section + "optimizer_offload", IfOn("memory.offload_optimizer", "true")},
      {section + "param_offload", IfOn("memory.offload_parameters", "true")},
      {section + "use_distributed_optimizer",
       [](const Setting& setting, Translation& result) {
         result.Set("parallel.zero", std::string(setting.off() ? "0" : "1"), setting.origin);
       }},
      {section + "use_megatron_fsdp", IfOn("parallel.zero", "3")},
      {section + "qat.enable", Missing("training with simulated quantisation")},
      {section + "dynamic_context_parallel", Missing("context parallelism of changing size")},
      {section + "seed", To("run.seed")},
      {section + "*", NotNeeded("nothing here depends on it")},
  };
}

std::vector<RuleRow> VerlModelRows(const std::string& section) {
  return {
      {section + "path", To("model.path")},
      {section + "enable_gradient_checkpointing",
       [](const Setting& setting, Translation& result) {
         result.Set("memory.recompute", std::string(setting.off() ? "none" : "full"), setting.origin);
       }},
      {section + "enable_activation_offload", IfOn("memory.offload_activations", "true")},
      {In(section, "lora_rank lora.rank"), Rank},
      {In(section, "lora_alpha lora.alpha"), To("tuning.alpha")},
      {section + "lora.dropout", To("tuning.dropout")},
      {In(section, "lora_dtype lora.dtype lora.merge"), NotNeeded("nothing here depends on it")},
      {section + "lora.type", Only({"lora"}, "tuning.kind has full, freeze and lora")},
      {In(section, "target_modules lora.target_modules"), ListTo("tuning.targets")},
      {In(section, "exclude_modules lora.exclude_modules"), ListTo("tuning.exclude")},
      {In(section, "lora_adapter_path lora.adapter_path"), To("tuning.adapters")},
      {section + "custom_chat_template", Missing("a template as text; data.template takes a file")},
      {section + "*", NotNeeded("nothing here depends on it")},
  };
}

std::vector<RuleRow> VerlTrainerRows() {
  return {
      {"trainer.total_epochs", To("run.epochs")},
      {"trainer.total_training_steps", To("run.steps")},
      {"trainer.default_local_dir", To("run.output")},
      {"trainer.project_name", To("log.project")},
      {"trainer.experiment_name", To("log.name")},
      {"trainer.logger", Loggers},
      {"trainer.seed", To("run.seed")},
      {"trainer.max_ckpt_to_keep trainer.max_actor_ckpt_to_keep", To("save.keep")},
      {"trainer.max_critic_ckpt_to_keep", NotNeeded("save.keep decides")},
      {"trainer.resume_mode", Map("run.resume", {{"auto", "auto"}, {"disable", "never"}})},
      {"trainer.resume_from_path", Missing("a checkpoint of another system's trainer cannot be resumed")},
      {"trainer.*", NotNeeded("nothing here depends on it")},
  };
}

void FinishVerlOptimizer(const Given& given, const std::string& section, Translation& result) {
  const std::string system = "verl";
  const Setting* ratio = given.Find(section + "min_lr_ratio");
  if (ratio != nullptr && !ratio->off() && result.value("optimizer.schedule", "constant") != "constant") {
    const double lr = std::strtod(result.value("optimizer.lr", "0").c_str(), nullptr);
    result.Set("optimizer.min_lr", given.Number(section + "min_lr_ratio", 0) * lr, ratio->origin + " x lr");
  }
  result.Default("optimizer.schedule", "constant", system);
  result.Default("optimizer.weight_decay", "0.01", system);
  result.Default("optimizer.beta2", "0.999", system);
  if (result.value("optimizer.weight_decay", "0") != "0")
    result.Warn("weight_decay", "of all parameters there under FSDP; biases and norms are exempt here");
}

}  // namespace trireme
