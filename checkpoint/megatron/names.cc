#include "checkpoint/megatron/names.h"

#include <algorithm>
#include <utility>

#include "checkpoint/megatron/layer_numbers.h"
#include "checkpoint/megatron/name_rules.h"
#include "core/base/error.h"
#include "core/base/file.h"

namespace trireme {
namespace {

constexpr const char* kFamilies[] = {"llama",   "mistral",     "qwen2",       "qwen3",   "qwen2_moe", "qwen3_moe",
                                     "mixtral", "deepseek_v2", "deepseek_v3", "kimi_k2", "glm4_moe"};

}  // namespace

struct MegatronNames::Found {
  const NameRule* rule;
  std::string hf_prefix;
  std::optional<int64_t> expert;
};

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

bool MegatronNames::Applies(const NameRule& rule) const {
  switch (rule.when) {
    case NameWhen::kLatent:
      return latent_;
    case NameWhen::kPlain:
      return !latent_;
    case NameWhen::kMixtral:
      return family_ == "mixtral";
    case NameWhen::kQwen2Moe:
      return family_ == "qwen2_moe";
    case NameWhen::kAlways:
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
  for (const NameRule& rule : NameRules()) {
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
    case NameWay::kQkv:
      return QueriesKeysValues(*found, rows);
    case NameWay::kHalves:
      return {{name(0), {{0, 0, rows / 2}}, rows / 2}, {name(1), {{rows / 2, 0, rows / 2}}, rows / 2}};
    case NameWay::kStackedDown: {
      const int64_t first = rows - latent_rows_;
      if (first < 1)
        throw InputError(where_, ": kv_lora_rank and qk_rope_head_dim do not fit ", rows, " rows of Megatron's '",
                         megatron, "'");
      return {{name(0), {{0, 0, first}}, first}, {name(1), {{first, 0, latent_rows_}}, latent_rows_}};
    }
    case NameWay::kVocabulary:
      if (megatron == "output_layer.weight" && tied_) return {};
      if (rows < vocabulary_) {
        throw InputError(where_, ": vocab_size is ", vocabulary_, ", and Megatron's '", megatron, "' has only ", rows,
                         " rows, padding included; use the config.json and tokenizer of this checkpoint's model");
      }
      return {{name(0), {{0, 0, vocabulary_}}, vocabulary_}};
    case NameWay::kSame:
      break;
  }
  return {{name(0), {{0, 0, rows}}, rows}};
}

}  // namespace trireme
