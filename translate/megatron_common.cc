// The options that all programs on Megatron's core share.
#include <algorithm>
#include <cstdlib>

#include "core/base/error.h"
#include "core/base/text.h"
#include "translate/megatron.h"

namespace trireme {
namespace {

void Dropout(const Setting& setting, Translation& result) {
  const bool off = std::strtod(setting.value().c_str(), nullptr) == 0;
  off ? result.LeaveOut(setting.origin, "is 0 here") : result.Refuse(setting.origin, "attention has no dropout");
}

void LoadBalance(const Setting& setting, Translation& result) {
  if (setting.value() == "none") {
    result.Set("experts.balance_coefficient", std::string("0"), setting.origin);
    return;
  }
  // The last one chooses experts without groups, by probabilities before top-k, as DeepSeek-V2-Lite's config.json says.
  Map("experts.balance", {{"aux_loss", "batch"},
                          {"seq_aux_loss", "sequence"},
                          {"global_aux_loss", "global"},
                          {"pai_megatron_aux_loss", "batch"}})(setting, result);
}

void BalanceCoefficient(const Setting& setting, Translation& result) {
  if (result.value("experts.balance_coefficient") == "0") return;  // moe_router_load_balancing_type none
  To("experts.balance_coefficient")(setting, result);
}

void SetRecomputation(const Given& given, Translation& result) {
  const Setting* number = given.Find("recompute_num_layers");
  const std::string method = given.Value("recompute_method", "");
  if (number == nullptr || result.value("memory.recompute") != "full") return;
  if (method == "block") {
    result.Warn(number->origin,
                "the first layers of each stage there, all layers here; memory.recompute_every takes fewer");
  } else if (number->value() != "1") {
    result.Warn(number->origin, "groups of so many layers are recomputed together there, each by itself here");
  }
}

void SetVirtualStages(const Given& given, int layers, Translation& result) {
  const int pipeline = std::max(1, static_cast<int>(given.Number("pipeline_model_parallel_size", 1)));
  const Setting* per_stage = given.Find("num_layers_per_virtual_pipeline_stage");
  const Setting* chunks = given.Find("virtual_pipeline_model_parallel_size");
  if (chunks == nullptr) chunks = given.Find("num_virtual_stages_per_pipeline_rank");
  int stages = chunks != nullptr ? std::atoi(chunks->value().c_str()) : 1;
  const std::string origin = chunks != nullptr ? chunks->origin : per_stage != nullptr ? per_stage->origin : "";
  if (per_stage != nullptr && !per_stage->off()) {
    const int each = std::max(1, std::atoi(per_stage->value().c_str()));
    if (layers == 0)
      return result.Refuse(origin, "the model's number of layers is not known; set parallel.virtual_stages");
    stages = layers / pipeline / each;
    if (stages * pipeline * each != layers) {
      return result.Refuse(origin, Concat(layers, " layers over ", pipeline, " stages are no multiple of ", each));
    }
  }
  if (stages <= 1) return;
  result.Set("parallel.virtual_stages", std::to_string(stages), origin);
  if (!result.has("parallel.schedule")) result.Set("parallel.schedule", std::string("interleaved"), origin);
}

// The stages between the first and the last share the other layers.
void SetStageLayers(const Given& given, int layers, Translation& result) {
  const Setting* first = given.Find("decoder_first_pipeline_num_layers");
  const Setting* last = given.Find("decoder_last_pipeline_num_layers");
  const Setting* named = first != nullptr ? first : last;
  if (named == nullptr) return;
  const int pipeline = static_cast<int>(given.Number("pipeline_model_parallel_size", 1));
  if (result.has("parallel.virtual_stages"))
    return result.Refuse(named->origin, "with virtual stages, set parallel.stage_layers");
  if (layers == 0)
    return result.Warn(named->origin, "stages are balanced by their cost; parallel.stage_layers gives others");
  const int at_first = first != nullptr ? std::atoi(first->value().c_str()) : -1;
  const int at_last = last != nullptr ? std::atoi(last->value().c_str()) : -1;
  const int others = pipeline - (first != nullptr) - (last != nullptr);
  const int rest = layers - std::max(0, at_first) - std::max(0, at_last);
  if (others <= 0 || rest % others != 0)
    return result.Refuse(named->origin, "the other stages do not share the rest evenly");
  std::vector<std::string> stages(static_cast<size_t>(pipeline), std::to_string(rest / others));
  if (first != nullptr) stages.front() = std::to_string(at_first);
  if (last != nullptr) stages.back() = std::to_string(at_last);
  result.Set("parallel.stage_layers", stages, named->origin);
}

void SetMoments(const Given& given, Translation& result) {
  const std::string first = given.Value("exp_avg_dtype", "fp32"), second = given.Value("exp_avg_sq_dtype", "fp32");
  if (first == "fp32" && second == "fp32") return;
  if (first == "bf16" && second == "bf16")
    return result.Set("optimizer.moments", first, "exp_avg_dtype and exp_avg_sq_dtype");
  result.Refuse("exp_avg_dtype, exp_avg_sq_dtype",
                Concat(first, " and ", second, "; optimizer.moments has fp32, bf16 and 8bit for both"));
}

}  // namespace

std::vector<RuleRow> MegatronRules() {
  std::vector<RuleRow> rules = {
      {"lr_decay_style", Map("optimizer.schedule", {{"cosine", "cosine"},
                                                    {"linear", "linear"},
                                                    {"constant", "constant"},
                                                    {"inverse-square-root", "inverse_sqrt"},
                                                    {"WSD", "wsd"}})},
      {"lr_wsd_decay_style",
       Map("optimizer.decay_shape", {{"cosine", "cosine"}, {"linear", "linear"}, {"minus_sqrt", "1-sqrt"}})},
      {"lr_warmup_iters",
       [](const Setting& setting, Translation& result) {
         setting.off() ? result.LeaveOut(setting.origin, "is 0") : To("optimizer.warmup_steps")(setting, result);
       }},
      {"recompute_granularity",
       Map("memory.recompute", {{"full", "full"}, {"selective", "selective"}, {"none", "none"}})},
      {"recompute_activations", IfOn("memory.recompute", "selective")},
      {"recompute_modules recompute_activation_function recompute_norm",
       Differs("memory.recompute chooses what is recomputed")},
      {"recompute_method recompute_num_layers", Elsewhere()},
      {"use_distributed_optimizer", IfOn("parallel.zero", "1")},
      {"data_parallel_sharding_strategy",
       Map("parallel.zero", {{"no_shard", "0"}, {"optim", "1"}, {"optim_grads", "2"}, {"optim_grads_params", "3"}})},
      {"context_parallel_algo",
       Map("parallel.context_method",
           {{"megatron_cp_algo", "ring"}, {"ulysses_cp_algo", "ulysses"}, {"hybrid_cp_algo", "hybrid"}})},
      {"cp_comm_type", Map("parallel.context_method", {{"p2p", "ring"}, {"a2a", "ulysses"}, {"a2a+p2p", "hybrid"}})},
      {"num_layers_per_virtual_pipeline_stage virtual_pipeline_model_parallel_size "
       "num_virtual_stages_per_pipeline_rank",
       Elsewhere()},
      {"decoder_first_pipeline_num_layers decoder_last_pipeline_num_layers", Elsewhere()},
      {"pipeline_model_parallel_layout",
       Differs("stages are balanced by their cost; parallel.stage_layers gives others")},
      {"num_layer_list", ListTo("parallel.stage_layers")},
      {"optimizer_cpu_offload swap_optimizer", IfOn("memory.offload_optimizer", "true")},
      {"swap_attention", IfOn("memory.offload_activations", "true")},
      {"optimizer_offload_fraction", Differs("memory.offload_optimizer moves all of it")},
      {"use_precision_aware_optimizer main_params_dtype main_grads_dtype overlap_cpu_optimizer_d2h_h2d "
       "swap_optimizer_times",
       NotNeeded("optimizer.masters and optimizer.moments decide")},
      {"exp_avg_dtype exp_avg_sq_dtype", Elsewhere()},
      {"moe_router_load_balancing_type", LoadBalance},
      {"moe_aux_loss_coeff", BalanceCoefficient},
      {"seq_aux", IfOn("experts.balance", "sequence")},
      {"moe_token_dispatcher_type", Map("experts.dispatch", {{"alltoall", "all_to_all"},
                                                             {"alltoall_seq", "all_to_all"},
                                                             {"flex", "all_to_all"},
                                                             {"allgather", "all_gather"}})},
      {"moe_expert_capacity_factor",
       [](const Setting& setting, Translation& result) {
         result.Set("experts.capacity", setting.value(), setting.origin);
         if (!result.has("experts.overflow")) result.Set("experts.overflow", std::string("drop"), setting.origin);
       }},
      {"moe_pad_expert_input_to_capacity", IfOn("experts.overflow", "pad")},
      {"moe_token_drop_policy", Only({"probs"}, "tokens with the smallest weights skip the expert")},
      {"attention_dropout", Dropout},
      {"bf16", IfOn("model.dtype", "bf16")},
      {"fp16", Missing("fp16 is not supported; use bf16")},
      {"split", ListTo("data.split")},
      {"distributed_timeout_minutes",
       [](const Setting& setting, Translation& result) {
         result.Set("comm.exec_timeout_seconds", 60 * std::strtod(setting.value().c_str(), nullptr), setting.origin);
       }},
      {"weight_decay_incr_style", Only({"constant"}, "the decay is constant")},
      {"finetune no_load_optim no_load_rng", NotNeeded("model.path gives the weights alone")},
      {"schedules_method", Map("parallel.schedule", {{"dualpipev", "dualpipev"}})},
      {"optimizer",
       Map("optimizer.name", {{"adam", "adamw"}, {"muon", "muon"}, {"dist_muon", "muon"}, {"sgd", "sgd"}})},
      {"sequence_parallel", To("parallel.sequence")},
      {"calculate_per_token_loss", NotNeeded("the loss is the mean over the step's tokens")},
  };
  for (RuleRow& row : MegatronFp8Rules()) rules.push_back(std::move(row));
  return rules;
}

void FinishMegatron(const Given& given, int layers, Translation& result) {
  SetRecomputation(given, result);
  SetVirtualStages(given, layers, result);
  SetStageLayers(given, layers, result);
  SetMoments(given, result);
  SetMegatronFp8(given, result);
}

void SetAdapterTargets(const Setting& setting, Translation& result) {
  static const std::vector<std::pair<std::string, std::vector<std::string>>> fused = {
      {"linear_qkv", {"q_proj", "k_proj", "v_proj"}},
      {"linear_proj", {"o_proj"}},
      {"linear_fc1", {"gate_proj", "up_proj"}},
      {"linear_fc2", {"down_proj"}}};
  std::vector<std::string> targets, saved;
  for (const std::string& value : setting.values) {
    const auto found = std::ranges::find(fused, value, [](const auto& pair) { return pair.first; });
    if (value == "all-embedding") {
      result.Refuse(setting.origin, Concat(value, " is not known; name the modules, or tuning.modules_to_save"));
    } else if (value == "all-router") {
      targets.push_back("gate");
    } else if (found != fused.end()) {
      targets.insert(targets.end(), found->second.begin(), found->second.end());
      if (found->second.size() > 1)
        result.Warn(setting.origin, Concat("one adapter for ", value, " there, ", found->second.size(), " here"));
    } else if (value == "embed_tokens" || value == "lm_head") {
      saved.push_back(value);
      result.Warn(setting.origin, Concat("an adapter on ", value, " there; trained in full here"));
    } else {
      targets.push_back(value);
    }
  }
  result.Set("tuning.targets", targets, setting.origin);
  if (!saved.empty()) result.Set("tuning.modules_to_save", saved, setting.origin);
}

}  // namespace trireme
