#include "checkpoint/megatron/names.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"

namespace trireme {
namespace {

constexpr const char* kFamilies[] = {"llama",   "mistral",     "qwen2",       "qwen3",   "qwen2_moe", "qwen3_moe",
                                     "mixtral", "deepseek_v2", "deepseek_v3", "kimi_k2", "glm4_moe"};
constexpr std::string_view kDecoder = "decoder.layers.", kMtp = "mtp.layers.", kHfLayers = "model.layers.";
constexpr std::string_view kMtpInner = "transformer_layer.";

// A number after `prefix`; nothing if there is none.
std::optional<int64_t> NumberAfter(const std::string& name, std::string_view prefix, std::string& rest) {
  if (!name.starts_with(prefix)) return std::nullopt;
  size_t end = prefix.size();
  while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) != 0) ++end;
  if (end == prefix.size() || end - prefix.size() > 9 || end >= name.size() || name[end] != '.') return std::nullopt;
  rest = name.substr(end + 1);
  return std::stoll(name.substr(prefix.size(), end - prefix.size()));
}

// "mlp.experts.7.linear_fc1.weight" to "mlp.experts.*.linear_fc1.weight".
std::optional<int64_t> TakeExpert(std::string& name) {
  const std::string_view mark = "experts.";
  const size_t at = name.find(mark);
  if (at == std::string::npos || (at > 0 && name[at - 1] != '.')) return std::nullopt;
  std::string rest;
  const auto number = NumberAfter(name.substr(at), mark, rest);
  if (number) name = name.substr(0, at + mark.size()) + "*." + rest;
  return number;
}

std::string WithExpert(std::string name, std::optional<int64_t> expert) {
  const size_t star = name.find('*');
  return star == std::string::npos || !expert ? name : name.replace(star, 1, std::to_string(*expert));
}

}  // namespace

enum class MegatronNames::Way { kSame, kHalves, kQkv, kStackedDown, kVocabulary };
enum class MegatronNames::When { kAlways, kLatent, kPlain, kMixtral, kQwen2Moe };  // of the model

struct MegatronNames::Rule {
  const char* megatron;  // of a layer, without its number
  std::vector<const char*> hf;
  Way way = Way::kSame;
  When when = When::kAlways;
};

struct MegatronNames::Found {
  const Rule* rule;
  std::string hf_prefix;
  std::optional<int64_t> expert;
};

const std::vector<MegatronNames::Rule>& MegatronNames::Rules() {
  static const std::vector<Rule> rules = {
      {"input_layernorm.weight", {"input_layernorm.weight"}},
      {"pre_mlp_layernorm.weight", {"post_attention_layernorm.weight"}},
      {"self_attention.linear_qkv.weight",
       {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"},
       Way::kQkv,
       When::kPlain},
      {"self_attention.linear_qkv.bias",
       {"self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"},
       Way::kQkv,
       When::kPlain},
      {"self_attention.linear_proj.weight", {"self_attn.o_proj.weight"}},
      {"self_attention.linear_proj.bias", {"self_attn.o_proj.bias"}},
      {"self_attention.q_layernorm.weight", {"self_attn.q_norm.weight"}, Way::kSame, When::kPlain},
      {"self_attention.k_layernorm.weight", {"self_attn.k_norm.weight"}, Way::kSame, When::kPlain},
      {"self_attention.linear_q_proj.weight", {"self_attn.q_proj.weight"}, Way::kSame, When::kLatent},
      {"self_attention.linear_q_down_proj.weight", {"self_attn.q_a_proj.weight"}, Way::kSame, When::kLatent},
      {"self_attention.linear_q_up_proj.weight", {"self_attn.q_b_proj.weight"}, Way::kSame, When::kLatent},
      {"self_attention.linear_kv_down_proj.weight", {"self_attn.kv_a_proj_with_mqa.weight"}, Way::kSame, When::kLatent},
      {"self_attention.linear_kv_up_proj.weight", {"self_attn.kv_b_proj.weight"}, Way::kSame, When::kLatent},
      {"self_attention.q_layernorm.weight", {"self_attn.q_a_layernorm.weight"}, Way::kSame, When::kLatent},
      {"self_attention.kv_layernorm.weight", {"self_attn.kv_a_layernorm.weight"}, Way::kSame, When::kLatent},
      // MindSpeed-LLM's names of the same.
      {"self_attention.k_layernorm.weight", {"self_attn.kv_a_layernorm.weight"}, Way::kSame, When::kLatent},
      {"self_attention.linear_qkv.weight",
       {"self_attn.q_a_proj.weight", "self_attn.kv_a_proj_with_mqa.weight"},
       Way::kStackedDown,
       When::kLatent},
      {"self_attention.linear_qkv_down_proj.weight",
       {"self_attn.q_a_proj.weight", "self_attn.kv_a_proj_with_mqa.weight"},
       Way::kStackedDown,
       When::kLatent},
      {"mlp.linear_fc1.weight", {"mlp.gate_proj.weight", "mlp.up_proj.weight"}, Way::kHalves},
      {"mlp.linear_fc1.bias", {"mlp.gate_proj.bias", "mlp.up_proj.bias"}, Way::kHalves},
      {"mlp.linear_fc2.weight", {"mlp.down_proj.weight"}},
      {"mlp.linear_fc2.bias", {"mlp.down_proj.bias"}},
      {"mlp.router.weight", {"block_sparse_moe.gate.weight"}, Way::kSame, When::kMixtral},
      {"mlp.experts.*.linear_fc1.weight",
       {"block_sparse_moe.experts.*.w1.weight", "block_sparse_moe.experts.*.w3.weight"},
       Way::kHalves,
       When::kMixtral},
      {"mlp.experts.*.linear_fc2.weight", {"block_sparse_moe.experts.*.w2.weight"}, Way::kSame, When::kMixtral},
      {"mlp.router.weight", {"mlp.gate.weight"}},
      {"mlp.router.expert_bias", {"mlp.gate.e_score_correction_bias"}},
      {"mlp.experts.*.linear_fc1.weight",
       {"mlp.experts.*.gate_proj.weight", "mlp.experts.*.up_proj.weight"},
       Way::kHalves},
      {"mlp.experts.*.linear_fc2.weight", {"mlp.experts.*.down_proj.weight"}},
      {"mlp.shared_experts.linear_fc1.weight",
       {"mlp.shared_expert.gate_proj.weight", "mlp.shared_expert.up_proj.weight"},
       Way::kHalves,
       When::kQwen2Moe},
      {"mlp.shared_experts.linear_fc2.weight", {"mlp.shared_expert.down_proj.weight"}, Way::kSame, When::kQwen2Moe},
      {"mlp.shared_experts.gate_weight", {"mlp.shared_expert_gate.weight"}, Way::kSame, When::kQwen2Moe},
      {"mlp.shared_experts.linear_fc1.weight",
       {"mlp.shared_experts.gate_proj.weight", "mlp.shared_experts.up_proj.weight"},
       Way::kHalves},
      {"mlp.shared_experts.linear_fc2.weight", {"mlp.shared_experts.down_proj.weight"}},
      // Of a multi-token prediction layer beside its transformer layer.
      {"enorm.weight", {"enorm.weight"}},
      {"hnorm.weight", {"hnorm.weight"}},
      {"eh_proj.weight", {"eh_proj.weight"}},
      {"final_layernorm.weight", {"shared_head.norm.weight"}},
      // Of the model.
      {"embedding.word_embeddings.weight", {"model.embed_tokens.weight"}, Way::kVocabulary},
      {"output_layer.weight", {"lm_head.weight"}, Way::kVocabulary},
      {"decoder.final_layernorm.weight", {"model.norm.weight"}}};
  return rules;
}

MegatronNames::MegatronNames(const Json& config, std::string where) : where_(std::move(where)) {
  family_ = config.is_object() ? config.value("model_type", "") : "";
  if (std::ranges::find(kFamilies, family_) == std::end(kFamilies)) {
    std::string known;
    for (const char* family : kFamilies) known += Concat(known.empty() ? "" : ", ", family);
    throw InputError(where_, ": model_type '", Printable(family_),
                     "' is not read from or written to Megatron checkpoints; wanted ", known);
  }
  layers_ = Integer(config, {"num_hidden_layers"}, 0);
  vocabulary_ = Integer(config, {"vocab_size"}, 0);
  heads_ = Integer(config, {"num_attention_heads"}, 0);
  groups_ = Integer(config, {"num_key_value_heads"}, heads_);
  latent_ = Integer(config, {"kv_lora_rank"}, 0) > 0;
  latent_rows_ = Integer(config, {"kv_lora_rank"}, 0) + Integer(config, {"qk_rope_head_dim"}, 0);
  tied_ = config.contains("tie_word_embeddings") && config["tie_word_embeddings"] == true;
  if (layers_ < 1 || vocabulary_ < 1 || heads_ < 1 || groups_ < 1)
    throw InputError(where_, ": num_hidden_layers, vocab_size and num_attention_heads are needed, and one is missing");
}

int64_t MegatronNames::Integer(const Json& config, std::initializer_list<const char*> names, int64_t otherwise) const {
  for (const char* name : names) {
    if (config.contains(name) && config[name].is_number_integer()) return config[name].get<int64_t>();
  }
  return otherwise;
}

bool MegatronNames::Applies(const Rule& rule) const {
  switch (rule.when) {
    case When::kLatent:
      return latent_;
    case When::kPlain:
      return !latent_;
    case When::kMixtral:
      return family_ == "mixtral";
    case When::kQwen2Moe:
      return family_ == "qwen2_moe";
    case When::kAlways:
      return true;
  }
  return true;
}

std::optional<MegatronNames::Found> MegatronNames::Find(const std::string& megatron) const {
  std::string rest = megatron, hf_prefix;
  if (const auto layer = NumberAfter(megatron, kDecoder, rest)) {
    hf_prefix = Concat(kHfLayers, *layer, ".");
  } else if (const auto depth = NumberAfter(megatron, kMtp, rest)) {
    hf_prefix = Concat(kHfLayers, layers_ + *depth, ".");
    if (rest.starts_with(kMtpInner)) rest.erase(0, kMtpInner.size());
  }
  const auto expert = TakeExpert(rest);
  for (const Rule& rule : Rules()) {
    if (rest == rule.megatron && Applies(rule)) return Found{&rule, hf_prefix, expert};
  }
  return std::nullopt;
}

std::vector<NamedRows> MegatronNames::QueriesKeysValues(const Found& found, int64_t rows) const {
  const int64_t dim = rows / (heads_ + 2 * groups_), queries = heads_ / groups_ * dim, group = queries + 2 * dim;
  if (heads_ % groups_ != 0 || dim * (heads_ + 2 * groups_) != rows)
    throw InputError(where_, ": ", heads_, " heads and ", groups_, " groups of keys do not fit ", rows,
                     " rows of Megatron's linear_qkv");
  std::vector<NamedRows> tensors;
  const std::pair<int64_t, int64_t> parts[] = {
      {0, queries}, {queries, dim}, {queries + dim, dim}};  // begin, rows in a group
  for (size_t i = 0; i < 3; ++i) {
    NamedRows tensor{found.hf_prefix + found.rule->hf[i], {}, groups_ * parts[i].second};
    for (int64_t g = 0; g < groups_; ++g)
      tensor.ranges.push_back({g * group + parts[i].first, g * parts[i].second, parts[i].second});
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

std::vector<NamedRows> MegatronNames::ToHuggingFace(const std::string& megatron, const Shape& shape) const {
  const std::optional<Found> found = Find(megatron);
  if (!found) throw InputError(where_, ": a ", family_, " has no tensor for Megatron's '", Printable(megatron), "'");
  if (shape.empty()) throw InputError(where_, ": Megatron's '", megatron, "' is a single number");
  const int64_t rows = shape[0];
  const auto name = [&](size_t i) { return found->hf_prefix + WithExpert(found->rule->hf[i], found->expert); };
  switch (found->rule->way) {
    case Way::kQkv:
      return QueriesKeysValues(*found, rows);
    case Way::kHalves:
      return {{name(0), {{0, 0, rows / 2}}, rows / 2}, {name(1), {{rows / 2, 0, rows / 2}}, rows / 2}};
    case Way::kStackedDown: {
      const int64_t first = rows - latent_rows_;
      if (first < 1)
        throw InputError(where_, ": kv_lora_rank and qk_rope_head_dim do not fit ", rows, " rows of Megatron's '",
                         megatron, "'");
      return {{name(0), {{0, 0, first}}, first}, {name(1), {{first, 0, latent_rows_}}, latent_rows_}};
    }
    case Way::kVocabulary:
      if (megatron == "output_layer.weight" && tied_) return {};
      if (rows < vocabulary_) {
        throw InputError(where_, ": vocab_size is ", vocabulary_, ", and Megatron's '", megatron, "' has only ", rows,
                         " rows, padding included; use the config.json and tokenizer of this checkpoint's model");
      }
      return {{name(0), {{0, 0, vocabulary_}}, vocabulary_}};
    case Way::kSame:
      break;
  }
  return {{name(0), {{0, 0, rows}}, rows}};
}

}  // namespace trireme
