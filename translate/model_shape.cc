#include "translate/model_shape.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"

namespace trireme {
namespace {

struct NamedFamily {
  const char *theirs, *ours;  // MindSpeed-LLM's name; empty: not here
};

constexpr NamedFamily kFamilies[] = {{"llama2", "llama"},
                                     {"llama3", "llama"},
                                     {"qwen2", "qwen2"},
                                     {"qwen25", "qwen2"},
                                     {"qwen3", "qwen3"},
                                     {"qwen3-moe", "qwen3_moe"},
                                     {"qwen3_moe", "qwen3_moe"},
                                     {"qwen3-next", "qwen3_next"},
                                     {"qwen3_next", "qwen3_next"},
                                     {"qwen3-coder-next", "qwen3_next"},
                                     {"deepseek2-lite", "deepseek_v2"},
                                     {"deepseek2", "deepseek_v2"},
                                     {"deepseek3", "deepseek_v3"},
                                     {"glm45-moe", "glm4_moe"},
                                     {"glm45", "glm4_moe"},
                                     {"glm45-air", "glm4_moe"},
                                     {"glm4.5", "glm4_moe"},
                                     {"gemma2", "gemma2"},
                                     {"mixtral", "mixtral"},
                                     {"kimi2", "kimi_k2"},
                                     {"kimi-k2", "kimi_k2"},
                                     {"minimax27", "minimax_m2"},
                                     {"minimax-m2", "minimax_m2"},
                                     {"minimax-m27", "minimax_m2"},
                                     {"magistral", "mistral"},
                                     {"mistral", "mistral"},
                                     {"phi3.5", ""},
                                     {"phi35", ""},
                                     {"seed-oss", "seed_oss"},
                                     {"seed_oss", "seed_oss"},
                                     {"deepseek32", ""},
                                     {"glm5", ""},
                                     {"glm52", ""},
                                     {"longcat", ""},
                                     {"plm", ""},
                                     {"bailing_mini", "bailing_moe"},
                                     {"ling-mini-v2", "bailing_moe"},
                                     {"hunyuan3", "hy_v3"},
                                     {"deepseek4", ""}};

double Num(const Given& given, const std::string& name, double otherwise) { return given.Number(name, otherwise); }

// Lines of "key": value.
class JsonLines {
 public:
  void Add(const std::string& key, double value) {
    std::ostringstream text;
    text.precision(12);
    text << value;
    lines_.push_back(Concat("  \"", key, "\": ", text.str()));
  }
  void AddFlag(const std::string& key, bool value) { lines_.push_back(Concat("  \"", key, "\": ", value)); }
  void AddText(const std::string& key, const std::string& value) {
    lines_.push_back(Concat("  \"", key, "\": \"", value, "\""));
  }
  void AddRaw(const std::string& key, const std::string& json) { lines_.push_back(Concat("  \"", key, "\": ", json)); }
  std::string Text() const { return Concat("{\n", Join(lines_, ",\n"), "\n}\n"); }

 private:
  std::vector<std::string> lines_;
};

void AddAttention(const Given& given, const std::string& family, JsonLines& json) {
  const double hidden = Num(given, "hidden_size", 0), heads = Num(given, "num_attention_heads", 1);
  json.Add("num_attention_heads", heads);
  json.Add("num_key_value_heads", given.IsOn("group_query_attention") ? Num(given, "num_query_groups", heads) : heads);
  if (!given.IsOn("multi_latent_attention")) json.Add("head_dim", Num(given, "kv_channels", hidden / heads));
  if (family == "llama" || family == "qwen3" || family == "qwen3_moe")
    json.AddFlag("attention_bias", given.IsOn("add_qkv_bias"));
  if (!given.IsOn("multi_latent_attention")) return;
  const Setting* q_rank = given.Find("q_lora_rank");
  q_rank == nullptr ? json.AddRaw("q_lora_rank", "null") : json.Add("q_lora_rank", Num(given, "q_lora_rank", 0));
  json.Add("kv_lora_rank", Num(given, "kv_lora_rank", 512));
  json.Add("qk_nope_head_dim", Num(given, "qk_head_dim", Num(given, "qk_nope_head_dim", 128)));
  json.Add("qk_rope_head_dim", Num(given, "qk_pos_emb_head_dim", Num(given, "qk_rope_head_dim", 64)));
  json.Add("v_head_dim", Num(given, "v_head_dim", 128));
}

void AddExperts(const Given& given, const std::string& family, JsonLines& json) {
  const double experts = Num(given, "num_experts", 0),
               width = Num(given, "moe_ffn_hidden_size", Num(given, "ffn_hidden_size", 0));
  if (experts == 0) return;
  const bool deepseek =
      family == "deepseek_v3" || family == "deepseek_v2" || family == "glm4_moe" || family == "kimi_k2";
  json.Add(deepseek ? "n_routed_experts" : family == "mixtral" ? "num_local_experts" : "num_experts", experts);
  json.Add("num_experts_per_tok", Num(given, "moe_router_topk", 2));
  if (family != "mixtral") json.Add("moe_intermediate_size", width);
  if (family == "qwen3_moe") {
    json.Add("decoder_sparse_step", 1);
    json.AddFlag("norm_topk_prob", given.IsOn("norm_topk_prob") || !given.IsOn("moe_router_pre_softmax"));
  }
  if (!deepseek) return;
  json.Add("first_k_dense_replace", std::max(0.0, Num(given, "first_k_dense_replace", 0)));
  const double shared = Num(given, "moe_shared_expert_intermediate_size", 0);
  json.Add("n_shared_experts", shared > 0 ? shared / width : Num(given, "n_shared_experts", 0));
  const bool grouped = given.Value("moe_router_load_balancing_type", "") != "pai_megatron_aux_loss";
  json.Add("n_group", grouped ? Num(given, "moe_router_num_groups", 1) : 1);
  json.Add("topk_group", grouped ? Num(given, "moe_router_group_topk", 1) : 1);
  json.Add("routed_scaling_factor", Num(given, "moe_router_topk_scaling_factor", 1));
  const bool sigmoid = given.Value("moe_router_score_function", "softmax") == "sigmoid";
  json.AddText("scoring_func", sigmoid ? "sigmoid" : "softmax");
  json.AddText("topk_method", given.IsOn("moe_router_enable_expert_bias") ? "noaux_tc" : "greedy");
  json.AddFlag("norm_topk_prob", given.IsOn("norm_topk_prob") || sigmoid);
  json.Add("moe_layer_freq", 1);
}

void AddRope(const Given& given, JsonLines& json) {
  json.Add("rope_theta", Num(given, "rotary_base", 10000));
  if (given.Find("partial_rotary_factor") || given.Find("rotary_percent")) {
    json.Add("partial_rotary_factor", Num(given, "partial_rotary_factor", Num(given, "rotary_percent", 1)));
  }
  const std::string kind = given.Value("rope_scaling_type", "");
  if (kind.empty()) return;
  std::vector<std::string> parts = {Concat("\"type\": \"", kind, "\"")};
  for (const auto& [theirs, ours] :
       {std::pair("rope_scaling_factor", "factor"), std::pair("rope_scaling_mscale", "mscale"),
        std::pair("rope_scaling_mscale_all_dim", "mscale_all_dim"), std::pair("beta_fast", "beta_fast"),
        std::pair("beta_slow", "beta_slow"), std::pair("low_freq_factor", "low_freq_factor"),
        std::pair("high_freq_factor", "high_freq_factor"),
        std::pair("rope_scaling_original_max_position_embeddings", "original_max_position_embeddings")}) {
    if (given.Find(theirs)) parts.push_back(Concat("\"", ours, "\": ", given.Value(theirs, "")));
  }
  json.AddRaw("rope_scaling", Concat("{", Join(parts, ", "), "}"));
}

}  // namespace

std::string ShapeFlags() {
  return "num_layers hidden_size ffn_hidden_size num_attention_heads num_query_groups group_query_attention "
         "kv_channels padded_vocab_size "
         "vocab_size make_vocab_size_divisible_by max_position_embeddings rotary_base rotary_percent "
         "partial_rotary_factor "
         "use_rotary_position_embeddings norm_epsilon swiglu untie_embeddings_and_output_weights disable_bias_linear "
         "add_qkv_bias "
         "add_dense_bias qk_layernorm num_experts moe_router_topk moe_ffn_hidden_size first_k_dense_replace "
         "moe_layer_freq n_shared_experts "
         "moe_shared_expert_intermediate_size shared_expert_gate norm_topk_prob moe_router_pre_softmax "
         "moe_router_score_function "
         "moe_router_enable_expert_bias moe_router_num_groups moe_router_group_topk moe_router_topk_scaling_factor "
         "multi_latent_attention "
         "q_lora_rank kv_lora_rank qk_head_dim qk_pos_emb_head_dim qk_nope_head_dim qk_rope_head_dim v_head_dim "
         "rope_scaling_type "
         "rope_scaling_factor rope_scaling_mscale rope_scaling_mscale_all_dim "
         "rope_scaling_original_max_position_embeddings beta_fast "
         "beta_slow low_freq_factor high_freq_factor use_rope_scaling init_method_std noop_layers model_type_hf spec "
         "mtp_spec "
         "enable_hf2mg_convert sliding_window window_size interleave_sliding_window post_norm query_pre_attn_scalar "
         "attn_logit_softcapping "
         "output_logit_softcapping add_rmsnorm_offset geglu gelu_tanh input_embeds_norm moe_intermediate_size "
         "full_attention_interval "
         "linear_key_head_dim linear_num_key_heads linear_num_value_heads linear_value_head_dim mamba_chunk_size "
         "mamba_d_conv mamba_expand "
         "use_triton_gdn no_enable_linear_qkv rope_type add_output_layer_bias qk_layernorm_before";
}

int LayersOf(const Given& given) {
  const std::string idle = given.Value("noop_layers", "");
  const auto count = idle.empty() ? 0 : 1 + std::ranges::count(idle, ',');
  return static_cast<int>(given.Number("num_layers", 0)) - static_cast<int>(count);
}

std::string FamilyOf(const Given& given, Translation& result) {
  if (const Setting* named = given.Find("model_type_hf")) {
    for (const NamedFamily& family : kFamilies) {
      if (named->value() != family.theirs) continue;
      if (*family.ours == '\0') result.Refuse(named->origin, "no family here reads it");
      return family.ours;
    }
  }
  if (given.IsOn("multi_latent_attention")) return "deepseek_v3";
  const bool experts = given.Number("num_experts", 0) > 0, norms = given.IsOn("qk_layernorm");
  if (experts) return norms ? "qwen3_moe" : "mixtral";
  return norms ? "qwen3" : given.IsOn("add_qkv_bias") ? "qwen2" : "llama";
}

std::string ModelConfigJson(const Given& given, const std::string& family) {
  static const std::vector<std::string> made = {"llama",       "qwen2",       "qwen3",    "qwen3_moe", "mixtral",
                                                "deepseek_v3", "deepseek_v2", "glm4_moe", "kimi_k2"};
  if (std::ranges::find(made, family) == made.end() || given.Find("num_layers") == nullptr) return "";
  JsonLines json;
  json.AddText("model_type", family);
  json.Add("num_hidden_layers", LayersOf(given));
  json.Add("hidden_size", Num(given, "hidden_size", 0));
  json.Add("intermediate_size", Num(given, "ffn_hidden_size", 4 * Num(given, "hidden_size", 0)));
  json.Add("vocab_size", Num(given, "vocab_size", Num(given, "padded_vocab_size", 0)));
  json.Add("max_position_embeddings", Num(given, "max_position_embeddings", 0));
  json.Add("rms_norm_eps", Num(given, "norm_epsilon", 1e-5));
  json.AddText("hidden_act", "silu");
  json.AddFlag("tie_word_embeddings", !given.IsOn("untie_embeddings_and_output_weights"));
  json.Add("initializer_range", Num(given, "init_method_std", 0.02));
  AddAttention(given, family, json);
  AddRope(given, json);
  AddExperts(given, family, json);
  if (given.Number("mtp_num_layers", 0) > 0) json.Add("num_nextn_predict_layers", Num(given, "mtp_num_layers", 0));
  return json.Text();
}

}  // namespace trireme
