// verl: `python3 -m verl.trainer.main_ppo key=value …`. Rules and defaults as verl/trainer/config has them.
#include <cstdlib>

#include "core/base/error.h"
#include "translate/trainer.h"
#include "translate/verl_common.h"
#include "translate/verl_distillation.h"
#include "translate/verl_evaluation.h"

namespace trireme {
namespace {

const std::string kActor = "actor_rollout_ref.actor.", kModel = "actor_rollout_ref.model.";
const std::string kRollout = "actor_rollout_ref.rollout.", kReference = "actor_rollout_ref.ref.";

const char* const kOverlong = "enable len penalty_factor log";

std::string VerlStage(const Given& given) {
  const std::string estimator = given.Value("algorithm.adv_estimator", "gae");
  if (VerlDistils(given)) return "gkd";
  if (estimator == "gae") return "ppo";
  return estimator.ends_with("_vectorized") ? estimator.substr(0, estimator.size() - 11) : estimator;
}

std::vector<RuleRow> LayoutRows() {
  const std::string megatron = kActor + "megatron.", change = megatron + "override_transformer_config.";
  std::vector<RuleRow> rows = {
      {In(change, "mtp_num_layers mtp_loss_scaling_factor"),
       Missing("multi-token prediction is trained in stages pt and sft")},
      {In(kActor, "fsdp_config.optimizer_offload megatron.optimizer_offload veomni.optimizer_offload"),
       IfOn("rl.offload_optimizer", "true")},
      {kActor + "veomni.expert_parallel_size", To("parallel.expert")},
      {kActor + "veomni.enable_full_shard",
       [](const Setting& setting, Translation& result) {
         result.Set("parallel.zero", std::string(setting.off() ? "2" : "3"), setting.origin);
       }},
      {kActor + "veomni.enable_fsdp_offload", IfOn("memory.offload_parameters", "true")},
      {kActor + "veomni.*", NotNeeded("fused operators are used where available")},
      {megatron + "param_offload", NotNeeded("this program samples with the weights that it trains")},
      {In(kActor,
          "ulysses_sequence_parallel_size fsdp_config.ulysses_sequence_parallel_size "
          "veomni.ulysses_parallel_size"),
       [](const Setting& setting, Translation& result) {
         if (setting.value() == "1") return result.LeaveOut(setting.origin, "is off");
         result.Set("parallel.context", setting.value(), setting.origin);
         result.Set("parallel.context_method", std::string("ulysses"), setting.origin);
       }},
      {In(kReference, "fsdp_config.param_offload megatron.param_offload veomni.param_offload"),
       IfOn("memory.offload_reference", "true")},
      {"actor@actor_rollout_ref.actor", Only({"mlite_actor"}, "no such layout is known here")},
      {kActor + "fsdp_config.*", NotNeeded("parallel.zero: 3 shards parameters over the data-parallel ranks")},
      {kActor + "strategy",
       Only({"fsdp", "fsdp2", "fsdp_turbo", "megatron", "veomni"}, "no such layout is known here")},
      {"model_engine", Only({"dp", "fsdp", "fsdp2", "megatron", "veomni"}, "no such layout is known here")},
      {kRollout + "tensor_model_parallel_size",
       NotNeeded("completions are sampled under the layout of parallel; rl.sampling gives another")},
  };
  for (RuleRow& row : VerlMegatronRows(megatron)) rows.push_back(std::move(row));
  for (RuleRow& row : VerlLiteRows(kActor + "engine.")) rows.push_back(std::move(row));
  return rows;
}

std::vector<RuleRow> LossRows() {
  return {
      {kActor + "entropy_coeff", To("rl.entropy_coef")},
      {In(kActor, "clip_ratio clip_ratio_low clip_ratio_high"), Elsewhere()},
      {In(kActor, "policy_loss.tau_pos tau_pos"), To("rl.sapo_temperature_pos")},
      {In(kActor, "policy_loss.tau_neg tau_neg"), To("rl.sapo_temperature_neg")},
      {kActor + "clip_ratio_c", To("rl.delta")},
      {kActor + "ppo_epochs", To("rl.iterations")},
      {In(kActor, "loss_agg_mode policy_loss.loss_mode use_kl_loss kl_loss_coef kl_loss_type"), Elsewhere()},
      {kActor + "policy_loss.*", Missing("rl.loss has no such loss")},
      {"algorithm.adv_estimator algorithm.use_kl_in_reward algorithm.kl_ctrl.kl_coef algorithm.kl_ctrl.type "
       "algorithm.kl_penalty",
       Elsewhere()},
      {"algorithm.norm_adv_by_std_in_grpo",
       [](const Setting& setting, Translation& result) {
         if (setting.off()) result.Set("rl.scale_rewards", std::string("none"), setting.origin);
       }},
      {"algorithm.lam", To("rl.lam")},
      {"algorithm.gamma", To("rl.gamma")},
      {"algorithm.filter_groups.enable algorithm.filter_groups.max_num_gen_batches algorithm.filter_groups.metric",
       Elsewhere()},
      {"algorithm.rollout_correction.*", NotNeeded("one program samples and trains, with the same probabilities")},
  };
}

std::vector<RuleRow> RunRows() {
  return {
      {"data.train_files", To("data.train")},
      {"data.train_batch_size data.max_prompt_length data.max_response_length", Elsewhere()},
      {In(kActor, "ppo_mini_batch_size ppo_micro_batch_size_per_gpu use_dynamic_bsz ppo_max_token_len_per_gpu"),
       Elsewhere()},
      {"data.filter_overlong_prompts data.truncation", NotNeeded("data.over_length drops prompts that are too long")},
      {"data.shuffle", To("data.shuffle")},
      {"data.seed", To("run.seed")},
      {"data.prompt_key",
       [](const Setting& setting, Translation& result) {
         if (setting.value() != "prompt")
           result.Set("data.columns", Concat(setting.value(), "=messages"), setting.origin);
       }},
      {"data.image_key", Only({"images"}, "images of prompts are in the column images; rename it by data.columns")},
      {"data.video_key", Missing("no family here reads video")},
      {"data.*", NotNeeded("nothing here depends on it")},
      {In(kModel, "mtp.enable mtp.enable_train"), Missing("multi-token prediction is trained in stages pt and sft")},
      {kRollout + "n", To("rl.group")},
      {In(kRollout, "temperature"), To("rl.temperature")},
      {kRollout + "top_p", To("rl.top_p")},
      {kRollout + "top_k", NeverAsMinusOne("rl.top_k")},
      {In(kRollout, "multi_turn.enable agent.agent_loop_config_path agent.default_agent_loop"),
       Missing("agents of verl; rl.environment takes a program")},
      {kRollout + "ignore_eos", Missing("completions end at an end token")},
      {kRollout + "*", NotNeeded("the program samples by itself")},
      {kReference + "*", NotNeeded("the reference has the policy's layout")},
      {kActor + "grad_clip", To("optimizer.clip")},
      {kActor + "*", NotNeeded("nothing here depends on it")},
      {"actor_rollout_ref.*", NotNeeded("nothing here depends on it")},
      {"critic.model.path", To("rl.value_model")},
      {"critic.cliprange_value", To("rl.cliprange_value")},
      {"critic.optim.lr", Differs("the value model has the policy's learning rate here")},
      {"trainer.critic_warmup", Missing("the policy is trained from the first step")},
      {"critic.*", NotNeeded("the value model has the policy's layout")},
      {"trainer.resume_from_path", NotNeeded("trainer.resume_mode decides")},
      {"trainer.save_freq", NeverAsMinusOne("save.every")},
      {"reward.reward_model.model_path reward_model.model.path",
       [](const Setting& setting, Translation& result) {
         result.Set("rl.rewards", Concat("model:", setting.value()), setting.origin);
       }},
      {In("reward.reward_kwargs.overlong_buffer_cfg.", kOverlong) + " " +
           In("reward_model.overlong_buffer.", kOverlong) + " " +
           In("reward_model.reward_kwargs.overlong_buffer_cfg.", kOverlong),
       Elsewhere()},
      {"reward.reward_manager.name reward_model.reward_manager",
       Only({"naive", "prime", "dapo"}, "rl.rewards has accuracy, format and others, no such manager")},
      {"reward.* reward_model.* reward_manager.*", NotNeeded("rl.rewards decides")},
      {"distillation.*", Elsewhere()},
      {"global_profiler.* ray_kwargs.* transfer_queue.*", NotNeeded("nothing here depends on it")},
      {"config_path config_name hydra.*", NotNeeded("the defaults of verl are written out")},
  };
}

std::vector<RuleRow> VerlRules() {
  std::vector<RuleRow> rules;
  for (const auto& rows : {VerlOptimizerRows(kActor + "optim."), LayoutRows(), VerlModelRows(kModel), LossRows(),
                           VerlEvaluationRows(), RunRows(), VerlTrainerRows()})
    rules.insert(rules.end(), rows.begin(), rows.end());
  return rules;
}

// Prompts there, completions here.
void SetPromptBatch(const Given& given, Translation& result) {
  const double prompts = given.Number("data.train_batch_size", 1024),
               mini = given.Number(kActor + "ppo_mini_batch_size", 256);
  const double group = given.Number(kRollout + "n", 1);
  const double steps = prompts / mini;
  if (steps != static_cast<int>(steps) || steps < 1) {
    return result.Refuse("data.train_batch_size",
                         Concat(prompts, " prompts are no multiple of ppo_mini_batch_size ", mini));
  }
  result.Set("rl.group", group, kRollout + "n");
  result.Set("run.global_batch", mini * group, Concat("ppo_mini_batch_size ", mini, " prompts x rollout.n ", group));
  result.Set("rl.steps_per_generation", steps,
             Concat("train_batch_size ", prompts, " over ppo_mini_batch_size ", mini));
  if (given.IsOn(kActor + "use_dynamic_bsz")) {
    result.Warn(kActor + "use_dynamic_bsz", "micro batches by tokens there; run.micro_batch sequences here");
  } else {
    result.Set("run.micro_batch", given.Number(kActor + "ppo_micro_batch_size_per_gpu", 1),
               kActor + "ppo_micro_batch_size_per_gpu");
  }
  const double prompt = given.Number("data.max_prompt_length", 512),
               answer = given.Number("data.max_response_length", 512);
  result.Set("rl.max_new_tokens", answer, "data.max_response_length");
  result.Set("data.max_length", prompt + answer, "data.max_prompt_length + data.max_response_length");
}

void SetPolicyLoss(const Given& given, const std::string& stage, Translation& result) {
  const std::string mode = given.Value(kActor + "policy_loss.loss_mode", "vanilla");
  const std::string sums = given.Value(kActor + "loss_agg_mode", "token-mean");
  static const WordPairs modes = {{"gspo", "gspo"}, {"sapo", "sapo"}, {"cispo", "cispo"}};
  static const WordPairs all_sums = {{"token-mean", "bnpo"},
                                     {"seq-mean-token-mean", "grpo"},
                                     {"seq-mean-token-sum", "luspo"},
                                     {"seq-mean-token-sum-norm", "dr_grpo"}};
  const Setting by_mode{"loss_mode", {mode}, "policy_loss.loss_mode " + mode},
      by_sum{"loss_agg_mode", {sums}, "loss_agg_mode " + sums};
  if (stage == "grpo")
    mode == "vanilla" ? Map("rl.loss", all_sums)(by_sum, result) : Map("rl.loss", modes)(by_mode, result);
  if (stage != "grpo" && mode != "vanilla") result.Refuse(by_mode.origin, "rl.loss is for stage grpo");
}

// cispo has a bound of ratios itself.
void SetClips(const Given& given, Translation& result) {
  const double both = given.Number(kActor + "clip_ratio", 0.2);
  const double low = given.Number(kActor + "clip_ratio_low", both),
               high = given.Number(kActor + "clip_ratio_high", both);
  if (result.value("rl.loss") != "cispo") {
    result.Set("rl.epsilon", low, "clip_ratio_low, or clip_ratio");
    return result.Set("rl.epsilon_high", high, "clip_ratio_high, or clip_ratio");
  }
  result.Set("rl.epsilon_high", 1 + high, "1 + clip_ratio_high");
  if (low < 1)
    result.Warn("clip_ratio_low", Concat("ratios below ", 1 - low, " count as that there, as they are here"));
  if (result.value("rl.steps_per_generation", "1") != "1")
    result.Warn("loss_agg_mode", "the mean is over a mini batch there, over all that are sampled together here");
}

void SetDivergence(const Given& given, const std::string& stage, Translation& result) {
  const bool in_loss = given.IsOn(kActor + "use_kl_loss"), in_reward = given.IsOn("algorithm.use_kl_in_reward");
  const std::string kind = given.Value(kActor + "kl_loss_type", "low_var_kl");
  const bool grpo = stage == "grpo";
  if (grpo && in_reward) return result.Refuse("algorithm.use_kl_in_reward", "stage grpo has the KL in the loss");
  if (!grpo && in_loss)
    return result.Refuse(kActor + "use_kl_loss", Concat("stage ", stage, " has the KL in the reward"));
  if (in_loss && kind != "low_var_kl" && kind != "k3") {
    return result.Refuse(kActor + "kl_loss_type " + kind, "the KL of the loss is k3, low_var_kl there");
  }
  const double beta = in_loss     ? given.Number(kActor + "kl_loss_coef", 0.001)
                      : in_reward ? given.Number("algorithm.kl_ctrl.kl_coef", 0.001)
                                  : 0;
  result.Set("rl.beta", beta,
             in_loss     ? "kl_loss_coef"
             : in_reward ? "algorithm.kl_ctrl.kl_coef"
                         : "no KL in loss or reward");
  if (grpo) result.Default("rl.bias_correction_kl", "false", "verl");
}

// A penalty that grows over the last tokens of the longest completion.
void SetOverlong(const Given& given, Translation& result) {
  for (const char* section : {"reward.reward_kwargs.overlong_buffer_cfg.", "reward_model.overlong_buffer.",
                              "reward_model.reward_kwargs.overlong_buffer_cfg."}) {
    if (!given.IsOn(Concat(section, "enable"))) continue;
    const double length = given.Number(Concat(section, "len"), 0),
                 longest = given.Number("data.max_response_length", 512);
    const std::string origin = given.Find(Concat(section, "enable"))->origin;
    if (length < 1 || length > longest) {
      return result.Refuse(origin, Concat("a penalty over the last ", length, " of ", longest, " tokens"));
    }
    const std::string reward = length * 5 == longest ? "soft_overlong" : Concat("soft_overlong:", length);
    const std::string weight = given.Value(Concat(section, "penalty_factor"), "1");
    const std::string others = result.value("rl.rewards");  // [accuracy]
    using Values = std::vector<std::string>;
    result.Set("rl.rewards", Values{others.substr(1, others.size() - 2), reward}, origin);
    result.Set("rl.reward_weights", Values{"1", weight}, origin + ", penalty_factor");
    return;
  }
}

// Where the user has no function of his own: verl's choose themselves by the data.
void SetRewards(Translation& result) {
  if (result.has("rl.rewards")) return;
  result.Default("rl.rewards", "accuracy", "verl");
  result.Warn("rewards", "by the data's data_source there; accuracy compares with reward_model.ground_truth here");
  const std::string truth = "reward_model.ground_truth=solution", others = result.value("data.columns");
  using Values = std::vector<std::string>;
  result.Set("data.columns", others.empty() ? Values{truth} : Values{others.substr(1, others.size() - 2), truth},
             "where verl's data has the truth");
}

void FinishVerl(const Given& given, const Surroundings&, const std::string& stage, Translation& result) {
  const std::string system = "verl";
  SetPromptBatch(given, result);
  FinishVerlEvaluation(given, result);
  SetPolicyLoss(given, stage, result);
  SetClips(given, result);
  stage == "gkd" ? SetVerlDistillation(given, result) : SetDivergence(given, stage, result);
  const bool megatron = given.Value("model_engine", "") == "megatron" || result.has("parallel.tensor") ||
                        result.has("parallel.pipeline") ||
                        given.Value("config_name", "").find("megatron") != std::string::npos;
  result.Default("tuning.kind", "full", system);
  if (result.value("tuning.kind") == "lora") result.Default("tuning.dropout", "0", system);
  result.Default("optimizer.lr", "1e-6", system);
  FinishVerlOptimizer(given, kActor + "optim.", result);
  result.Default("rl.delta", "3", system);
  result.Default("rl.lam", "1", system);
  result.Default("run.epochs", "30", system);
  result.Default("save.every", "0", system);
  result.Default("parallel.zero", megatron ? "1" : "3", system);
  if (!megatron) result.Default("memory.recompute", "full", system);
  if (given.IsOn("algorithm.filter_groups.enable")) {
    result.Set("rl.max_resample_times", given.Number("algorithm.filter_groups.max_num_gen_batches", 10),
               "algorithm.filter_groups");
  }
  SetRewards(result);
  SetOverlong(given, result);
  FinishTrainer(given, "verl", result);
  if (stage == "gkd" && result.value("eval.every", "0") == "0") {  // rewards are of evaluations there
    result.Remove("rl.rewards");
    result.Remove("rl.reward_weights");
  }
}

}  // namespace

const System& VerlSystem() {
  static const System system = {"verl", "verl", VerlStage, VerlRules, FinishVerl};
  return system;
}

}  // namespace trireme
