// Tiny models of the families that Megatron checkpoints are written of, as Hugging Face directories with random bytes.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/safetensors_writer.h"
#include "core/base/error.h"
#include "core/base/json.h"

namespace trireme {

constexpr int64_t kHidden = 16, kFfn = 24, kHeads = 4, kGroups = 2, kHeadDim = 4, kVocabulary = 10, kExperts = 4;
constexpr int64_t kLayers = 4, kExpertFfn = 8;

inline Json TinyConfig(const std::string& family) {
  Json config = {{"model_type", family},         {"hidden_size", kHidden},
                 {"intermediate_size", kFfn},    {"num_attention_heads", kHeads},
                 {"num_hidden_layers", kLayers}, {"num_key_value_heads", kGroups},
                 {"vocab_size", kVocabulary},    {"rms_norm_eps", 1e-5},
                 {"head_dim", kHeadDim},         {"tie_word_embeddings", family == "qwen2"},
                 {"torch_dtype", "bfloat16"}};
  if (family == "mixtral") config.update({{"num_local_experts", kExperts}, {"num_experts_per_tok", 2}});
  if (family == "qwen2_moe" || family == "qwen3_moe") {
    config.update({{"num_experts", kExperts},
                   {"num_experts_per_tok", 2},
                   {"moe_intermediate_size", kExpertFfn},
                   {"norm_topk_prob", true}});
  }
  if (family != "deepseek_v3") return config;
  config.update(
      {{"q_lora_rank", 6}, {"kv_lora_rank", 5}, {"qk_nope_head_dim", 4}, {"qk_rope_head_dim", 2}, {"v_head_dim", 4}});
  config.update({{"n_routed_experts", kExperts}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", kExpertFfn}});
  config.update({{"first_k_dense_replace", 1}, {"scoring_func", "sigmoid"}, {"num_nextn_predict_layers", 1}});
  config["num_key_value_heads"] = kHeads;
  return config;
}

class TinyModel {
 public:
  explicit TinyModel(std::string family) : family_(std::move(family)) {
    Add("model.embed_tokens.weight", {kVocabulary, kHidden});
    Add("model.norm.weight", {kHidden});
    if (family_ != "qwen2") Add("lm_head.weight", {kVocabulary, kHidden});
    const bool latent = family_ == "deepseek_v3";
    for (int64_t layer = 0; layer < kLayers + (latent ? 1 : 0); ++layer) {
      prefix_ = Concat("model.layers.", layer, ".");
      AddLayer(layer);
    }
    if (!latent) return;
    for (const char* norm : {"enorm", "hnorm", "shared_head.norm"}) Add(Concat(norm, ".weight"), {kHidden});
    Add("eh_proj.weight", {kHidden, 2 * kHidden});
  }

  const std::map<std::string, Shape>& shapes() const { return shapes_; }
  Json config() const { return TinyConfig(family_); }

  // model.safetensors and config.json.
  void Write(const std::filesystem::path& directory, const Json& config) const {
    std::filesystem::create_directories(directory);
    std::ofstream(directory / "config.json") << config.dump();
    std::mt19937 random(7);
    std::vector<std::vector<uint16_t>> values;
    std::vector<TensorToWrite> tensors;
    for (const auto& [name, shape] : shapes_) {
      values.emplace_back(static_cast<size_t>(Elements(shape)));
      for (uint16_t& value : values.back()) value = static_cast<uint16_t>(random() & 0xbfff);  // all finite
      tensors.push_back({name, DType::kBf16, shape, values.back().data()});
    }
    WriteSafetensors(directory / "model.safetensors", tensors);
  }

 private:
  void Add(const std::string& name, const Shape& shape) { shapes_[prefix_ + name] = shape; }

  void AddGated(const std::string& stem, int64_t width, const char* gate, const char* up, const char* down) {
    Add(Concat(stem, ".", gate, ".weight"), {width, kHidden});
    Add(Concat(stem, ".", up, ".weight"), {width, kHidden});
    Add(Concat(stem, ".", down, ".weight"), {kHidden, width});
  }
  void AddMlp(const std::string& stem, int64_t width) { AddGated(stem, width, "gate_proj", "up_proj", "down_proj"); }

  void AddAttention() {
    if (family_ == "deepseek_v3") {
      Add("self_attn.q_a_proj.weight", {6, kHidden});
      Add("self_attn.q_a_layernorm.weight", {6});
      Add("self_attn.q_b_proj.weight", {kHeads * 6, 6});
      Add("self_attn.kv_a_proj_with_mqa.weight", {7, kHidden});
      Add("self_attn.kv_a_layernorm.weight", {5});
      Add("self_attn.kv_b_proj.weight", {kHeads * 8, 5});
    } else {
      const bool biased = family_.starts_with("qwen2");
      for (const auto& [name, heads] : {std::pair("q", kHeads), std::pair("k", kGroups), std::pair("v", kGroups)}) {
        Add(Concat("self_attn.", name, "_proj.weight"), {heads * kHeadDim, kHidden});
        if (biased) Add(Concat("self_attn.", name, "_proj.bias"), {heads * kHeadDim});
      }
    }
    if (family_.starts_with("qwen3")) {
      for (const char* name : {"self_attn.q_norm.weight", "self_attn.k_norm.weight"}) Add(name, {kHeadDim});
    }
    Add("self_attn.o_proj.weight", {kHidden, kHeads * kHeadDim});
  }

  void AddExperts() {
    const bool mixtral = family_ == "mixtral";
    const std::string stem = mixtral ? "block_sparse_moe" : "mlp";
    Add(stem + ".gate.weight", {kExperts, kHidden});
    for (int64_t expert = 0; expert < kExperts; ++expert) {
      const std::string one = Concat(stem, ".experts.", expert);
      if (mixtral)
        AddGated(one, kFfn, "w1", "w3", "w2");
      else
        AddMlp(one, kExpertFfn);
    }
    if (family_ == "deepseek_v3") {
      AddMlp("mlp.shared_experts", kExpertFfn);
      Add("mlp.gate.e_score_correction_bias", {kExperts});
    }
    if (family_ != "qwen2_moe") return;
    AddMlp("mlp.shared_expert", kFfn);
    Add("mlp.shared_expert_gate.weight", {1, kHidden});
  }

  void AddLayer(int64_t layer) {
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) Add(Concat(norm, ".weight"), {kHidden});
    AddAttention();
    const bool experts = family_ == "mixtral" || family_.ends_with("_moe") || (family_ == "deepseek_v3" && layer > 0);
    if (experts) return AddExperts();
    AddMlp("mlp", kFfn);
  }

  std::string family_, prefix_;
  std::map<std::string, Shape> shapes_;
};

}  // namespace trireme
