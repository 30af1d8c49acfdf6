// Configs of both generations of transformers give the same graph; what no family implements is refused.
#include "models/families.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

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
            "config.json: model_type 'gpt2' is not known; known: llama, qwen2, qwen3");
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
