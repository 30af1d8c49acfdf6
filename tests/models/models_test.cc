// Configs of both generations of transformers give the same graph; what no family implements is refused.
#include "models/families.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/nearest.h"

namespace trireme {
namespace {

Json Config(const char* model_type, const Json& changes = Json::object()) {
  Json config = {{"model_type", model_type}, {"vocab_size", 100},        {"hidden_size", 32},
                 {"num_hidden_layers", 2},   {"num_attention_heads", 4}, {"num_key_value_heads", 2},
                 {"intermediate_size", 48},  {"hidden_act", "silu"},     {"rms_norm_eps", 1e-5}};
  config.update(changes);
  return config;
}

LayerGraph Build(const Json& config) { return BuildGraph(HfConfig(config, "config.json")); }

std::string RefusalOf(const Json& config) {
  try {
    Build(config);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "accepted";
}

const DecoderSpec& Decoder(const LayerGraph& graph) { return std::get<DecoderSpec>(graph.layers.at(1).spec); }

TEST(Models, FamiliesDifferWhereTheyShould) {
  EXPECT_FALSE(Decoder(Build(Config("llama"))).attention.qkv_bias);
  EXPECT_TRUE(Decoder(Build(Config("qwen2"))).attention.qkv_bias);
  EXPECT_FALSE(Decoder(Build(Config("qwen2"))).attention.output_bias);
  EXPECT_TRUE(Decoder(Build(Config("qwen3"))).attention.qk_norm);
  const LayerGraph llama = Build(Config("llama", {{"attention_bias", true}, {"mlp_bias", true}}));
  EXPECT_TRUE(Decoder(llama).attention.output_bias);
  EXPECT_TRUE(Decoder(llama).mlp.bias);
}

TEST(Models, Qwen3MoeMixesDenseAndExpertLayers) {
  const Json experts = {{"num_hidden_layers", 6},      {"num_experts", 8},         {"num_experts_per_tok", 2},
                        {"moe_intermediate_size", 24}, {"decoder_sparse_step", 2}, {"mlp_only_layers", {3}},
                        {"norm_topk_prob", true}};
  const LayerGraph graph = Build(Config("qwen3_moe", experts));
  std::vector<bool> sparse;
  for (size_t i = 1; i <= 6; ++i)
    sparse.push_back(std::get<DecoderSpec>(graph.layers[i].spec).experts.has_value());
  EXPECT_EQ(sparse, (std::vector<bool>{false, true, false, false, false, true}));
  const ExpertsSpec& spec = *std::get<DecoderSpec>(graph.layers[2].spec).experts;
  EXPECT_EQ(spec.ffn, 24);
  EXPECT_EQ(spec.router, (RouterRule{.experts = 8, .top_k = 2, .normalise = true}));
  EXPECT_EQ(graph.layers[2].hf_names.at("experts.up.weight"),
            "model.layers.1.mlp.experts.{expert}.up_proj.weight");
  EXPECT_NE(ToText(graph).find("2 of 8 experts 32 > 24"), std::string::npos);
  // transformers 5 spells the number of experts in another way.
  Json renamed = experts;
  renamed.erase("num_experts");
  renamed["num_local_experts"] = 8;
  EXPECT_EQ(ToText(Build(Config("qwen3_moe", renamed))), ToText(graph));
  renamed["num_experts_per_tok"] = 9;
  EXPECT_EQ(RefusalOf(Config("qwen3_moe", renamed)),
            "config.json: num_experts_per_tok = 9 is more than num_local_experts = 8");
  renamed["num_experts_per_tok"] = 2;
  renamed["mlp_only_layers"] = {"3"};
  EXPECT_NE(RefusalOf(Config("qwen3_moe", renamed)).find("wanted a list of integers"), std::string::npos);
}

TEST(Models, GraphHasEmbeddingLayersAndHead) {
  const LayerGraph graph = Build(Config("qwen3", {{"head_dim", 16}, {"tie_word_embeddings", true}}));
  ASSERT_EQ(graph.layers.size(), 4u);
  EXPECT_EQ(graph.layers[2].hf_names.at("attention.q.weight"), "model.layers.1.self_attn.q_proj.weight");
  EXPECT_EQ(Decoder(graph).attention.head_dim, 16);
  EXPECT_TRUE(std::get<HeadSpec>(graph.layers.back().spec).tied);
  EXPECT_NE(ToText(graph).find("layers.0: attention 4 heads of 16 (2 key-value), mlp 32 > 48"),
            std::string::npos);
}

TEST(Models, BothSpellingsOfRopeAndType) {
  const Json scaling = {{"factor", 8.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 8192}};
  Json old_scaling = scaling, new_scaling = scaling;
  old_scaling["type"] = "llama3";
  new_scaling["rope_type"] = "llama3";
  new_scaling["rope_theta"] = 5e5;
  const LayerGraph old_graph = Build(
      Config("llama", {{"rope_theta", 5e5}, {"rope_scaling", old_scaling}, {"torch_dtype", "bfloat16"}}));
  const LayerGraph new_graph =
      Build(Config("llama", {{"rope_parameters", new_scaling}, {"dtype", "bfloat16"}}));
  EXPECT_EQ(InverseFrequencies(Decoder(old_graph).attention.rope),
            InverseFrequencies(Decoder(new_graph).attention.rope));
  EXPECT_EQ(Decoder(new_graph).attention.rope.scaling, RopeSpec::Scaling::kLlama3);
  EXPECT_EQ(old_graph.dtype, DType::kBf16);
  EXPECT_EQ(new_graph.dtype, DType::kBf16);
}

TEST(Models, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(RefusalOf(Config("gpt2")),
            "config.json: model_type 'gpt2' is not known; known: " + Join(KnownFamilies()));
  EXPECT_EQ(RefusalOf(Config("llama", {{"hidden_act", "gelu"}})),
            "config.json: hidden_act is \"gelu\"; only \"silu\" is supported");
  EXPECT_EQ(RefusalOf(Config("llama", {{"hidden_size", 0}})), "config.json: hidden_size is 0; wanted a size");
  EXPECT_EQ(RefusalOf(Config("llama", {{"num_key_value_heads", 3}})),
            "config.json: num_attention_heads = 4 is no multiple of num_key_value_heads = 3");
  EXPECT_EQ(RefusalOf(Config("qwen2", {{"use_sliding_window", true}})),
            "config.json: use_sliding_window is true; only false is supported");
  EXPECT_EQ(RefusalOf(Config("llama", {{"rope_scaling", {{"type", "ntk"}, {"factor", 2.0}}}})),
            "config.json: rope_scaling has the type 'ntk'; wanted default, linear or llama3");
  EXPECT_EQ(RefusalOf(Config("llama", {{"vocab_size", nullptr}})), "config.json: vocab_size is missing");
}

}  // namespace
}  // namespace trireme
