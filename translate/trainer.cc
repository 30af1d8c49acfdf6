#include "translate/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/config/yaml_document.h"
#include "translate/deepspeed.h"
#include "translate/model_names.h"

namespace trireme {
namespace {

void Reporters(const Setting& setting, Translation& result) {
  std::vector<std::string> names;
  for (const std::string& value : setting.values) {
    if (IsReporter(value)) {
      names.push_back(value);
    } else if (value != "tensorboard" && value != "none" && value != "all") {
      result.Refuse(setting.origin, Concat("log.report_to has wandb, swanlab, mlflow and trackio, not ", value));
    }
  }
  if (names.empty()) return result.LeaveOut(setting.origin, "log.jsonl and TensorBoard's events are always written");
  result.Set("log.report_to", names, setting.origin);
}

// transformers reads warmup_steps below 1 as a ratio.
void WarmupSteps(const Setting& setting, Translation& result) {
  const double steps = std::strtod(setting.value().c_str(), nullptr);
  if (steps <= 0) return result.LeaveOut(setting.origin, "is 0");
  result.Set(steps < 1 ? "optimizer.warmup" : "optimizer.warmup_steps", steps, setting.origin);
  if (steps >= 1) result.Remove("optimizer.warmup");  // steps win over the ratio there
}

void WarmupRatio(const Setting& setting, Translation& result) {
  if (!result.has("optimizer.warmup_steps")) To("optimizer.warmup")(setting, result);
}

void MaxSteps(const Setting& setting, Translation& result) {
  if (std::strtod(setting.value().c_str(), nullptr) > 0) To("run.steps")(setting, result);
}

void Optimizer(const Setting& setting, Translation& result) {
  const std::string name = setting.value();
  if (name.find("8bit") != std::string::npos && name.find("adamw") != std::string::npos) {
    return result.Set("optimizer.moments", std::string("8bit"), setting.origin);
  }
  Map("optimizer.name", {{"adamw_torch", "adamw"},
                         {"adamw_torch_fused", "adamw"},
                         {"adamw_hf", "adamw"},
                         {"adamw_torch_npu_fused", "adamw"},
                         {"paged_adamw_32bit", "adamw"},
                         {"paged_adamw", "adamw"},
                         {"adamw", "adamw"},
                         {"adafactor", "adafactor"},
                         {"sgd", "sgd"},
                         {"muon", "muon"}})(setting, result);
}

// {"min_lr": 1e-6}, {"num_cycles": 3}.
void ScheduleOptions(const Setting& setting, Translation& result) {
  const YAML::Node options = ParseYaml(setting.value(), {.name = setting.name});
  if (!options.IsMap()) return;
  for (const auto& entry : options) {
    const std::string name = entry.first.Scalar(), value = entry.second.IsScalar() ? entry.second.Scalar() : "";
    const std::string key = name == "min_lr" || name == "lr_end" ? "optimizer.min_lr"
                            : name == "num_cycles"               ? "optimizer.cycles"
                            : name == "power"                    ? "optimizer.power"
                                                                 : "";
    if (name == "min_lr_rate") {
      result.Refuse(setting.origin, "min_lr_rate has no key here: set optimizer.min_lr to the rate times optimizer.lr");
    } else if (key.empty()) {
      result.Refuse(setting.origin, Concat("the schedule's ", name, " has no key here"));
    } else {
      result.Set(key, value, setting.origin);
    }
  }
}

void Resume(const Setting& setting, Translation& result) {
  if (setting.off()) return result.LeaveOut(setting.origin, "is off");
  if (setting.value() == "true" || setting.value() == "True") {
    return result.LeaveOut(setting.origin, "run.resume: auto does so");
  }
  result.Refuse(setting.origin,
                "a checkpoint of another system's trainer cannot be resumed; model.path takes its weights");
}

// Steps of "no", "steps" and "epoch".
void SetInterval(const Given& given, const std::string& strategy, const std::string& steps_name, double otherwise,
                 const std::string& what, Translation& result) {
  const Setting* steps = given.Find(steps_name);
  const Setting* chosen = given.Find(what + "_strategy");
  if (chosen == nullptr) chosen = given.Find("save_strategy");  // evaluations follow saves
  const std::string origin = steps != nullptr ? steps->origin : chosen != nullptr ? chosen->origin : "";
  const std::string key = Concat(what, ".every");
  if (strategy == "no") return result.Set(key, std::string("0"), chosen != nullptr ? chosen->origin : origin);
  if (strategy == "epoch") {
    result.Set(key, std::string("0"), chosen->origin);
    return result.Set(key + "_epoch", std::string("true"), chosen->origin);
  }
  if (strategy != "steps") return result.Refuse(chosen->origin, "wanted no, steps or epoch");
  const double every = given.Number(steps_name, otherwise);
  if (every > 0 && every < 1) return result.Refuse(origin, "a fraction of all steps; give a number of steps");
  if (every <= 0 || steps == nullptr)
    return result.Default(key, std::to_string(static_cast<int>(otherwise)), "Hugging Face");
  result.Set(key, every, steps->origin);
}

int EnvironmentNumber(const Given& given, const std::string& name, int otherwise) {
  const auto found = given.environment.find(name);
  const int number = found == given.environment.end() ? otherwise : std::atoi(found->second.c_str());
  return number > 0 ? number : otherwise;
}

// The number after --nproc_per_node in the launcher's words.
int LauncherNumber(const std::string& launcher, const std::string& option, int otherwise) {
  for (const char separator : {' ', '='}) {
    const size_t at = launcher.find(option + separator);
    if (at != std::string::npos) return std::max(1, std::atoi(launcher.c_str() + at + option.size() + 1));
  }
  return otherwise;
}

}  // namespace

bool IsReporter(const std::string& name) {
  return name == "wandb" || name == "swanlab" || name == "mlflow" || name == "trackio";
}

std::vector<RuleRow> TrainerRules() {
  return {
      {"lr_scheduler_type", Map("optimizer.schedule", {{"linear", "linear"},
                                                       {"cosine", "cosine"},
                                                       {"constant", "constant"},
                                                       {"constant_with_warmup", "constant"},
                                                       {"polynomial", "polynomial"},
                                                       {"cosine_with_restarts", "cosine_with_restarts"},
                                                       {"inverse_sqrt", "inverse_sqrt"},
                                                       {"cosine_with_min_lr", "cosine"},
                                                       {"warmup_stable_decay", "wsd"}})},
      {"lr_scheduler_kwargs", ScheduleOptions},
      {"warmup_ratio", WarmupRatio},
      {"warmup_steps", WarmupSteps},
      {"max_steps", MaxSteps},
      {"optim", Optimizer},
      {"optim_args", Missing("optimizer has keys of its own")},
      {"report_to", Reporters},
      {"resume_from_checkpoint", Resume},
      {"torch_dtype dtype",
       Map("model.dtype", {{"bfloat16", "bf16"}, {"bf16", "bf16"}, {"float32", "fp32"}, {"auto", ""}})},
      {"bf16", IfOn("model.dtype", "bf16")},
      {"fp16", Missing("fp16 is not supported; use bf16")},
      {"gradient_checkpointing",
       [](const Setting& setting, Translation& result) {
         result.Set("memory.recompute", std::string(setting.off() ? "none" : "full"), setting.origin);
       }},
      {"deepspeed", Elsewhere()},
      {"per_device_train_batch_size gradient_accumulation_steps", Elsewhere()},
      {"per_device_eval_batch_size", NotNeeded("evaluations use run.micro_batch")},
      {"save_strategy save_steps eval_strategy eval_steps evaluation_strategy", Elsewhere()},
      {"save_total_limit",
       [](const Setting& setting, Translation& result) {
         result.Set("save.keep", std::string(setting.value() == "-1" ? "0" : setting.value()), setting.origin);
       }},
      {"load_best_model_at_end", IfOn("save.final_from", "best")},
      {"metric_for_best_model", Only({"loss", "eval_loss"}, "the best checkpoint is that of the lowest loss")},
      {"greater_is_better", Only({"false", "False"}, "the best checkpoint is that of the lowest loss")},
      {"use_cpu no_cuda", IfOn("device", "cpu")},
      {"data_seed", NotNeeded("run.seed controls everything")},
      {"deterministic full_determinism", IfOn("run.deterministic", "true")},
  };
}

std::vector<RuleRow> WithTrainerRules(std::vector<RuleRow> more) {
  for (RuleRow& row : TrainerRules()) more.push_back(std::move(row));
  return more;
}

int WorldOf(const Given& given, const Surroundings& around) {
  if (around.world > 0) return around.world;
  const int per_node = LauncherNumber(
      given.launcher, "--nproc_per_node",
      LauncherNumber(given.launcher, "--nproc-per-node",
                     LauncherNumber(given.launcher, "--num_processes", EnvironmentNumber(given, "NPROC_PER_NODE", 1))));
  const bool counts_all = given.launcher.find("--num_processes") != std::string::npos;
  return per_node *
         (counts_all ? 1 : LauncherNumber(given.launcher, "--nnodes", EnvironmentNumber(given, "NNODES", 1)));
}

void SetBatch(const Given& given, int world, const BatchRule& rule, Translation& result) {
  const double micro = given.Number("per_device_train_batch_size", rule.per_device);
  const int data_ranks = std::max(1, world / rule.shared_by);
  double steps = given.Number("gradient_accumulation_steps", rule.accumulation);
  if (steps == 0) steps = std::max(1.0, std::ceil(16 / micro / world));
  result.Set("run.micro_batch", micro, "per_device_train_batch_size");
  result.Set("run.global_batch", micro * steps * data_ranks,
             Concat("per_device_train_batch_size ", micro, " x gradient_accumulation_steps ", steps, " x ",
                    Counted(data_ranks, "data-parallel rank")));
}

void SetSavesAndEvaluations(const Given& given, bool evaluates, Translation& result) {
  const std::string saves = given.Value("save_strategy", "steps");
  SetInterval(given, saves, "save_steps", 500, "save", result);
  const bool named = given.Find("eval_strategy") != nullptr || given.Find("evaluation_strategy") != nullptr;
  const std::string evals = given.Value("eval_strategy", given.Value("evaluation_strategy", evaluates ? saves : "no"));
  if (!named && !evaluates) return;
  SetInterval(given, evals, "eval_steps", given.Number("save_steps", 500), "eval", result);
}

void FinishTrainer(const Given& given, const std::string& system, Translation& result) {
  const bool has_valid = result.has("data.valid") || result.value("data.valid_ratio", "0") != "0";
  for (const char* key : {"eval.every", "eval.every_epoch"}) {
    if (has_valid || !result.has(key)) continue;
    const Setting* steps = given.Find("eval_steps");
    if (steps != nullptr && std::string(key) == "eval.every")
      result.LeaveOut(steps->origin, "there is no validation data");
    result.Remove(key);
  }
  if (const Setting* deepspeed = given.Find("deepspeed")) SetZero(*deepspeed, result);
  const bool megatron = system.find("egatron") != std::string::npos;
  const bool warms = result.value("optimizer.warmup", "0") != "0" || result.has("optimizer.warmup_steps");
  if (warms && !megatron) result.Warn("warm-up", "the first step has the rate 0 there, and one increment here");
  const bool trains = !given.IsOn("do_predict") || result.has("data.train");
  if (!result.has(trains ? "data.train" : "data.valid")) result.Refuse(system, "no data is named");
  if (!result.has("model.path")) result.Refuse(system, "no model is named");
  RefuseUnknownModel(result);
}

}  // namespace trireme
