// Configs of both generations of transformers give the same graph; what no family implements is refused.
#include <cmath>
#include <map>

#include "core/base/text.h"
#include "parallel/graph/parameters.h"
#include "tests/models/small_configs.h"

namespace trireme {
namespace {

TEST(Models, FamiliesDifferWhereTheyShould) {
  EXPECT_FALSE(Decoder(Build(Config("llama"))).attention.qkv_bias);
  EXPECT_TRUE(Decoder(Build(Config("qwen2"))).attention.qkv_bias);
  EXPECT_FALSE(Decoder(Build(Config("qwen2"))).attention.output_bias);
  EXPECT_TRUE(Decoder(Build(Config("qwen3"))).attention.qk_norm);
  EXPECT_EQ(Decoder(Build(Config("qwen3"))).attention.norm_eps, 1e-5);  // of the heads' norms as of all others
  const LayerGraph mixtral = Build(Config("mixtral", {{"num_local_experts", 4}, {"num_experts_per_tok", 2}}));
  EXPECT_EQ(Decoder(mixtral).experts->router, (RouterRule{.experts = 4, .top_k = 2, .normalise = true}));
  const LayerGraph llama = Build(Config("llama", {{"attention_bias", true}, {"mlp_bias", true}}));
  EXPECT_TRUE(Decoder(llama).attention.output_bias);
  EXPECT_TRUE(Decoder(llama).mlp.bias);
}

// A graph of 2^40 experts would exhaust memory before it could be refused.
TEST(Models, RefusesImplausibleSizes) {
  EXPECT_EQ(RefusalOf(Config("llama", {{"num_hidden_layers", 1000000}})),
            "config.json: num_hidden_layers is 1000000, more than any known model has; the limit is 4096");
  const auto experts = [](int64_t count, int64_t layers) {
    return Config("qwen3_moe", {{"num_experts", count},
                                {"num_hidden_layers", layers},
                                {"num_experts_per_tok", 2},
                                {"moe_intermediate_size", 24}});
  };
  EXPECT_EQ(RefusalOf(experts(int64_t{1} << 40, 2)),
            "config.json: num_experts is 1099511627776, more than any known model has; the limit is 32768");
  EXPECT_EQ(RefusalOf(experts(4096, 1024)),
            "config.json: num_experts is 4096, more than any known model has; the limit is 512");
  EXPECT_EQ(RefusalOf(Config("llama", {{"vocab_size", uint64_t{1} << 63}})),
            "config.json: vocab_size is 9223372036854775807, more than any known model has; the "
            "limit is 67108864");
  EXPECT_EQ(RefusalOf(experts(512, 128)), "accepted");
}

TEST(Models, Qwen3MoeMixesDenseAndExpertLayers) {
  const Json experts = {{"num_hidden_layers", 6},      {"num_experts", 8},         {"num_experts_per_tok", 2},
                        {"moe_intermediate_size", 24}, {"decoder_sparse_step", 2}, {"mlp_only_layers", {3}},
                        {"norm_topk_prob", true}};
  const LayerGraph graph = Build(Config("qwen3_moe", experts));
  std::vector<bool> sparse;
  for (size_t i = 1; i <= 6; ++i) sparse.push_back(std::get<DecoderSpec>(graph.layers[i].spec).experts.has_value());
  EXPECT_EQ(sparse, (std::vector<bool>{false, true, false, false, false, true}));
  EXPECT_TRUE(Decoder(graph).attention.qk_norm);
  const ExpertsSpec& spec = *std::get<DecoderSpec>(graph.layers[2].spec).experts;
  EXPECT_EQ(spec.ffn, 24);
  EXPECT_EQ(spec.router, (RouterRule{.experts = 8, .top_k = 2, .normalise = true}));
  EXPECT_EQ(graph.layers[2].hf_names.at("experts.up.weight"), "model.layers.1.mlp.experts.{expert}.up_proj.weight");
  EXPECT_NE(ToText(graph).find("2 of 8 experts 32 > 24"), std::string::npos);
  // transformers 5 uses another key for the number of experts.
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

Json DeepseekConfig(const char* model_type) {
  return Config(model_type, {{"num_hidden_layers", 3},
                             {"num_key_value_heads", 4},
                             {"kv_lora_rank", 16},
                             {"q_lora_rank", nullptr},
                             {"qk_nope_head_dim", 8},
                             {"qk_rope_head_dim", 4},
                             {"v_head_dim", 6},
                             {"n_routed_experts", 8},
                             {"n_shared_experts", 2},
                             {"num_experts_per_tok", 2},
                             {"moe_intermediate_size", 5},
                             {"first_k_dense_replace", 1},
                             {"n_group", 4},
                             {"topk_group", 2},
                             {"routed_scaling_factor", 2.5}});
}

TEST(Models, DeepseekHasLatentAttentionAndRoutesWithinGroups) {
  Json config = DeepseekConfig("deepseek_v3");
  config["num_nextn_predict_layers"] = 1;
  config["num_key_value_heads"] = 2;  // ignored: every query head has keys of its own
  const LayerGraph graph = Build(config);
  EXPECT_FALSE(std::get<DecoderSpec>(graph.layers[1].spec).experts);
  const DecoderSpec& decoder = std::get<DecoderSpec>(graph.layers[2].spec);
  EXPECT_EQ(decoder.attention.latent->query_rank, 0);
  EXPECT_EQ(decoder.attention.kv_heads, decoder.attention.heads);
  EXPECT_EQ(decoder.attention.latent->head_dim(), 12);
  EXPECT_EQ(decoder.experts->shared_ffn, 10);
  EXPECT_EQ(decoder.experts->router, (RouterRule{.experts = 8,
                                                 .top_k = 2,
                                                 .scores = RouterRule::Scores::kSigmoid,
                                                 .groups = 4,
                                                 .top_groups = 2,
                                                 .group_score = RouterRule::GroupScore::kSumOfTwo,
                                                 .correction_bias = true,
                                                 .normalise = true,
                                                 .normalise_eps = 1e-20,
                                                 .scale = 2.5}));
  EXPECT_EQ(graph.unused, (std::vector<std::string>{"model.layers.3."}));
  ASSERT_EQ(graph.mtp.size(), 1u);
  EXPECT_EQ(graph.mtp[0].hf_names.at("join.weight"), "model.layers.3.eh_proj.weight");
  EXPECT_EQ(graph.mtp[0].hf_names.at("router.bias"), "model.layers.3.mlp.gate.e_score_correction_bias");
  EXPECT_TRUE(DecoderOf(graph.mtp[0].spec)->experts);
  config["num_nextn_predict_layers"] = 0;
  EXPECT_TRUE(Build(config).mtp.empty());
  // V2 without its method takes the overall largest; n_group is then ignored.
  const LayerGraph second = Build(DeepseekConfig("deepseek_v2"));
  EXPECT_EQ(std::get<DecoderSpec>(second.layers[2].spec).experts->router,
            (RouterRule{.experts = 8, .top_k = 2, .scale = 2.5}));
}

TEST(Models, RefusesGroupsThatDoNotDivide) {
  Json config = DeepseekConfig("deepseek_v3");
  config["n_group"] = 3;
  EXPECT_EQ(RefusalOf(config),
            "config.json: 2 of 8 experts cannot be chosen from topk_group = 2 of n_group = 3; wanted a "
            "number of groups that divides the experts, and enough experts in them");
  config["n_group"] = 8;
  config["topk_group"] = 1;
  EXPECT_NE(RefusalOf(config).find("cannot be chosen from topk_group = 1 of n_group = 8"), std::string::npos);
}

TEST(Models, YarnIsReadWithItsMagnitudes) {
  Json config = DeepseekConfig("deepseek_v2");
  config["rope_scaling"] = {{"type", "yarn"},
                            {"factor", 40},
                            {"original_max_position_embeddings", 4096},
                            {"mscale", 1.0},
                            {"mscale_all_dim", 1.0}};
  const AttentionSpec attention = std::get<DecoderSpec>(Build(config).layers[1].spec).attention;
  EXPECT_EQ(attention.rope.scaling, RopeSpec::Scaling::kYarn);
  EXPECT_DOUBLE_EQ(attention.rope.magnitude, 1.0);
  EXPECT_NEAR(attention.latent->scale, std::pow(0.1 * std::log(40.0) + 1, 2) / std::sqrt(12.0), 1e-12);
}

TEST(Models, GraphHasEmbeddingLayersAndHead) {
  const LayerGraph graph = Build(Config("qwen3", {{"head_dim", 16}, {"tie_word_embeddings", true}}));
  ASSERT_EQ(graph.layers.size(), 4u);
  EXPECT_EQ(graph.layers[2].hf_names.at("attention.q.weight"), "model.layers.1.self_attn.q_proj.weight");
  EXPECT_EQ(Decoder(graph).attention.head_dim, 16);
  EXPECT_TRUE(std::get<HeadSpec>(graph.layers.back().spec).tied);
  EXPECT_NE(ToText(graph).find("layers.0: attention 4 heads of 16 (2 key-value), mlp 32 > 48"), std::string::npos);
}

TEST(Models, BothSpellingsOfRopeAndType) {
  const Json scaling = {
      {"factor", 8.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 4096}};
  Json old_scaling = scaling, new_scaling = scaling;
  old_scaling["type"] = "llama3";
  new_scaling["rope_type"] = "llama3";
  new_scaling["rope_theta"] = 5e5;
  const LayerGraph old_graph =
      Build(Config("llama", {{"rope_theta", 5e5}, {"rope_scaling", old_scaling}, {"torch_dtype", "bfloat16"}}));
  const LayerGraph new_graph = Build(Config("llama", {{"rope_parameters", new_scaling}, {"dtype", "bfloat16"}}));
  EXPECT_EQ(InverseFrequencies(Decoder(old_graph).attention.rope),
            InverseFrequencies(Decoder(new_graph).attention.rope));
  EXPECT_EQ(Decoder(new_graph).attention.rope.scaling, RopeSpec::Scaling::kLlama3);
  EXPECT_EQ(Decoder(new_graph).attention.rope.original_positions, 4096);
  EXPECT_EQ(old_graph.dtype, DType::kBf16);
  EXPECT_EQ(new_graph.dtype, DType::kBf16);
}

// A key that nobody reads may change the model's function; one that is null, or on the list, or begins with _, does
// not.
TEST(Models, RefusesKeysThatNothingReads) {
  EXPECT_EQ(
      RefusalOf(Config("llama", {{"logit_scale", 0.5}})),
      "config.json: logit_scale is 0.5, and this key is not known here: it may change what the model computes. If it "
      "does not, rename it to _logit_scale, which is ignored");
  EXPECT_EQ(RefusalOf(Config("llama", {{"_logit_scale", 0.5}, {"logit_scale", nullptr}, {"use_cache", true}})),
            "accepted");
  EXPECT_NE(RefusalOf(Config("llama", {{"num_experts", 8}})), "accepted");  // of other families
  const Json scaling = {{"rope_type", "linear"}, {"factor", 2.0}, {"beta_fast", 3}};
  EXPECT_NE(RefusalOf(Config("llama", {{"rope_parameters", scaling}})).find("rope_parameters: beta_fast is 3"),
            std::string::npos);
}

// The published DeepSeek-V3 says so; blocks of fp8 are read.
TEST(Models, RefusesWeightsQuantisedInAnotherWay) {
  const auto with = [](const Json& how) { return RefusalOf(Config("llama", {{"quantization_config", how}})); };
  const Json fp8 = {
      {"quant_method", "fp8"}, {"fmt", "e4m3"}, {"activation_scheme", "dynamic"}, {"weight_block_size", {128, 128}}};
  EXPECT_EQ(with(fp8), "accepted");
  EXPECT_EQ(with({{"quant_method", "mxfp4"}, {"modules_to_not_convert", {"lm_head"}}}), "accepted");
  EXPECT_NE(with({{"quant_method", "mxfp4"}, {"block", 16}}).find("block is 16"), std::string::npos);
  EXPECT_EQ(with({{"quant_method", "gptq"}, {"bits", 4}, {"sym", true}}), "accepted");
  EXPECT_NE(with({{"quant_method", "gptq"}, {"checkpoint_format", "marlin"}}).find("wanted gptq or gptq_v2"),
            std::string::npos);
  EXPECT_EQ(with({{"quant_method", "awq"}, {"bits", 4}, {"version", "gemm"}, {"zero_point", true}}), "accepted");
  EXPECT_NE(with({{"quant_method", "awq"}, {"version", "gemv"}}).find("version is \"gemv\""), std::string::npos);
  const Json group = {{"weights", {{"num_bits", 4}, {"type", "int"}, {"symmetric", true}}}, {"targets", {"Linear"}}};
  Json compressed = {
      {"quant_method", "compressed-tensors"}, {"format", "pack-quantized"}, {"config_groups", {{"group_0", group}}}};
  EXPECT_EQ(with(compressed), "accepted");
  compressed["config_groups"]["group_0"]["input_activations"] = {{"num_bits", 8}};
  EXPECT_NE(with(compressed).find("input_activations is"), std::string::npos);
  EXPECT_NE(with({{"quant_method", "hqq"}, {"bits", 4}}).find("has the quant_method 'hqq'; wanted fp8"),
            std::string::npos);
  EXPECT_EQ(with({{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}}), "accepted");
  EXPECT_EQ(with({{"quant_method", "bitsandbytes"}, {"load_in_8bit", true}}), "accepted");
  EXPECT_NE(with({{"quant_method", "bitsandbytes"}}).find("neither load_in_4bit nor load_in_8bit"), std::string::npos);
  Json other = fp8;
  other["weight_block_size"] = {64, 64};
  EXPECT_NE(with(other).find("weight_block_size is [64,64]"), std::string::npos);
}

TEST(Models, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(RefusalOf(Config("gpt2")),
            "config.json: model_type 'gpt2' is not supported; supported: " + Join(KnownFamilies()));
  EXPECT_EQ(RefusalOf(Config("llama", {{"hidden_act", "gelu"}})),
            "config.json: hidden_act is \"gelu\"; only \"silu\" is supported");
  EXPECT_EQ(RefusalOf(Config("llama", {{"hidden_size", 0}})),
            "config.json: hidden_size is 0; wanted a positive integer");
  EXPECT_EQ(RefusalOf(Config("llama", {{"num_key_value_heads", 3}})),
            "config.json: num_attention_heads = 4 is not a multiple of num_key_value_heads = 3");
  EXPECT_EQ(RefusalOf(Config("qwen2_moe", {{"use_sliding_window", true}})),
            "config.json: use_sliding_window is true; only false is supported");
  EXPECT_EQ(RefusalOf(Config("llama", {{"rope_scaling", {{"type", "ntk"}, {"factor", 2.0}}}})),
            "config.json: rope_scaling has the type 'ntk'; wanted default, linear, dynamic, llama3, yarn or longrope");
  EXPECT_EQ(RefusalOf(Config("llama", {{"vocab_size", nullptr}})), "config.json: vocab_size is missing");
}

TEST(Models, NormsAndRotationsOfBranches) {
  const DecoderSpec olmo = Decoder(Build(Config("olmo2")));
  EXPECT_TRUE(olmo.attention.wide_qk_norm && !olmo.attention.norms.input && olmo.attention.norms.output);
  EXPECT_TRUE(!olmo.mlp.norms.input && olmo.mlp.norms.output);
  const LayerGraph glm = Build(Config("glm4", {{"head_dim", 16}, {"partial_rotary_factor", 0.25}}));
  EXPECT_TRUE(Decoder(glm).attention.norms.input && Decoder(glm).attention.norms.output);
  EXPECT_EQ(Decoder(glm).attention.rope.rotary_dim, 4);
  EXPECT_EQ(glm.layers[2].hf_names.at("mlp_output_norm.weight"), "model.layers.1.post_mlp_layernorm.weight");
  EXPECT_EQ(Decoder(Build(Config("glm4"))).attention.rope.rotary_dim, 64) << "heads of 128, half of each";
  EXPECT_EQ(RefusalOf(Config("glm4", {{"partial_rotary_factor", 1.5}})),
            "config.json: partial_rotary_factor is 1.5; wanted above 0 and at most 1");
  EXPECT_NE(RefusalOf(Config("llama", {{"partial_rotary_factor", 0.5}})), "accepted") << "transformers' Llama has none";
  EXPECT_TRUE(Decoder(Build(Config("ernie4_5"))).attention.interleaved);
  EXPECT_TRUE(std::get<HeadSpec>(Build(Config("ernie4_5")).layers.back().spec).tied)
      << "unless the config says otherwise";
  const Json alpha = {{"type", "dynamic"}, {"alpha", 1000.0}, {"factor", 1.0}, {"beta_fast", 32}};
  const DecoderSpec hunyuan = Decoder(Build(Config("hunyuan_v1_dense", {{"head_dim", 8}, {"rope_scaling", alpha}})));
  EXPECT_TRUE(hunyuan.attention.late_qk_norm);
  EXPECT_DOUBLE_EQ(hunyuan.attention.rope.theta, 1e4 * std::pow(1000.0, 8.0 / 6.0));
  EXPECT_NE(RefusalOf(Config("llama", {{"rope_scaling", alpha}})).find("has the type 'dynamic'"), std::string::npos);
}

TEST(Models, DynamicRopeStartsAtTheModelsLongest) {
  const Json dynamic = {{"type", "dynamic"}, {"factor", 4.0}};
  const Json config = Config("llama", {{"max_position_embeddings", 64}, {"rope_scaling", dynamic}});
  const RopeSpec rope = Decoder(Build(config)).attention.rope;
  EXPECT_EQ(rope.scaling, RopeSpec::Scaling::kDynamic);
  EXPECT_EQ(rope.longest_positions, 64);
  EXPECT_EQ(HfConfig(config, "config.json").LongestSequence(), 256);
  EXPECT_EQ(HfConfig(Config("llama", {{"max_position_embeddings", 64}}), "config.json").LongestSequence(), 64);
  EXPECT_EQ(RefusalOf(Config("llama", {{"max_position_embeddings", 64}, {"rope_scaling", {{"type", "dynamic"}}}})),
            "config.json: rope_scaling: factor is missing; the type 'dynamic' needs a number of at least 1");
  EXPECT_NE(RefusalOf(Config("llama", {{"rope_scaling", dynamic}})).find("needs max_position_embeddings"),
            std::string::npos);
}

// Phi-4-mini rotates a part of each head; the length of its pretraining stands beside the scaling.
TEST(Models, LongropeOfBothSpellings) {
  const Json factors = {{"short_factor", {1.0, 1.5, 2.0}}, {"long_factor", {4.0, 8.0, 16.0}}};
  Json old = factors, current = factors;
  old["type"] = "longrope";
  current.update({{"rope_type", "longrope"},
                  {"rope_theta", 1e4},
                  {"partial_rotary_factor", 0.75},
                  {"original_max_position_embeddings", 16}});
  const Json sizes = {{"max_position_embeddings", 256}, {"original_max_position_embeddings", 16}};
  const auto phi = [&](const char* key, const Json& scaling, const Json& more = Json::object()) {
    Json config = Config("phi3", sizes);
    config[key] = scaling;
    config.update(more);
    return config;
  };
  for (const Json& config :
       {phi("rope_scaling", old, {{"partial_rotary_factor", 0.75}}), phi("rope_parameters", current)}) {
    const RopeSpec rope = Decoder(Build(config)).attention.rope;
    EXPECT_EQ(rope.scaling, RopeSpec::Scaling::kLongrope);
    EXPECT_EQ(rope.rotary_dim, 6);
    EXPECT_EQ(rope.original_positions, 16);
    EXPECT_DOUBLE_EQ(rope.magnitude, std::sqrt(1 + std::log(16.0) / std::log(16.0)));
    EXPECT_EQ(rope.long_factors, (std::vector<double>{4, 8, 16}));
  }
  old["attention_factor"] = 1.25;
  EXPECT_EQ(Decoder(Build(phi("rope_scaling", old, {{"partial_rotary_factor", 0.75}}))).attention.rope.magnitude, 1.25);
  EXPECT_EQ(
      RefusalOf(phi("rope_scaling", old)),
      "config.json: rope_scaling: short_factor has 3 numbers; wanted 4 above 0, one for each pair of rotated elements");
  EXPECT_EQ(RefusalOf(phi("rope_scaling", {{"type", "linear"}, {"factor", 2.0}})),
            "config.json: rope_scaling has the type 'linear'; wanted default or longrope");
  EXPECT_EQ(RefusalOf(phi("rope_scaling", nullptr, {{"lm_head_bias", true}})),
            "config.json: lm_head_bias is true; only false is supported");
}

// Layers with and without a window have rotary embeddings of their own, in the keys of both generations.
TEST(Models, RotateByKindOfLayer) {
  const auto thetas = [](const Json& config) {
    std::vector<double> found;
    for (const Layer& layer : Build(config).layers) {
      if (const DecoderSpec* decoder = DecoderOf(layer.spec)) found.push_back(decoder->attention.rope.theta);
    }
    return found;
  };
  const Json four = {{"hidden_act", nullptr}, {"num_hidden_layers", 3},      {"sliding_window_pattern", 3},
                     {"rope_theta", 2e6},     {"rope_local_base_freq", 3e4}, {"sliding_window", 9}};
  EXPECT_EQ(thetas(Config("gemma3_text", four)), (std::vector<double>{3e4, 3e4, 2e6}));
  Json five = {{"hidden_act", nullptr},
               {"num_hidden_layers", 3},
               {"sliding_window", 9},
               {"layer_types", {"sliding_attention", "sliding_attention", "full_attention"}},
               {"rope_parameters",
                {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 2e6}}},
                 {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 3e4}}}}}};
  EXPECT_EQ(ToText(Build(Config("gemma3_text", five))), ToText(Build(Config("gemma3_text", four))));
  EXPECT_EQ(thetas(Config("gemma3_text", five)), (std::vector<double>{3e4, 3e4, 2e6}));
  five["rope_parameters"]["rope_theta"] = 5e5;
  EXPECT_NE(RefusalOf(Config("gemma3_text", five)).find("rope_parameters: rope_theta is"), std::string::npos);
  EXPECT_EQ(thetas(Config("olmo3", {{"num_hidden_layers", 4}})), (std::vector<double>(4, 5e5)));
  EXPECT_NE(RefusalOf(Config("olmo3", {{"rope_theta", 1e4}})).find("rope_theta is 10000.0; only"), std::string::npos);
  EXPECT_EQ(RefusalOf(Config("olmo3", {{"sliding_window", nullptr}})),
            "config.json: sliding_window is null, and layer_types has layers with one; set its size");
}

TEST(Models, ExpertsOfOtherKeys) {
  const LayerGraph hunyuan = Build(Config("hunyuan_v1_moe", {{"num_experts", 8}, {"moe_topk", {1, 3}}}));
  EXPECT_EQ(Decoder(hunyuan).experts->router.top_k, 1);
  EXPECT_EQ(std::get<DecoderSpec>(hunyuan.layers[2].spec).experts->router.top_k, 3);
  EXPECT_EQ(RefusalOf(Config("hunyuan_v1_moe", {{"num_experts", 8}, {"moe_topk", {1, 9}}})),
            "config.json: moe_topk has 9; wanted 1 to num_experts = 8");
  const Json minimax = {{"num_local_experts", 8}, {"num_experts_per_tok", 2}, {"head_dim", 16}, {"rotary_dim", 8}};
  EXPECT_EQ(Decoder(Build(Config("minimax_m2", minimax))).attention.rope.rotary_dim, 8);
  Json linear = minimax;
  linear["attn_type_list"] = {1, 0};
  EXPECT_EQ(RefusalOf(Config("minimax_m2", linear)),
            "config.json: attn_type_list has 0; only 1, full attention, is supported");
  const Json glm = {{"n_routed_experts", 8},
                    {"num_experts_per_tok", 2},
                    {"moe_intermediate_size", 24},
                    {"n_shared_experts", 1},
                    {"num_nextn_predict_layers", 1}};
  const LayerGraph glm4_moe = Build(Config("glm4_moe", glm));
  EXPECT_FALSE(Decoder(glm4_moe).experts.has_value()) << "the first layer is dense";
  EXPECT_TRUE(std::get<DecoderSpec>(glm4_moe.layers[2].spec).experts->router.correction_bias);
  EXPECT_EQ(glm4_moe.unused, (std::vector<std::string>{"model.layers.2."}));
}

std::vector<int64_t> WindowsOf(const Json& config) {
  std::vector<int64_t> windows;
  for (const Layer& layer : Build(config).layers) {
    if (const DecoderSpec* decoder = DecoderOf(layer.spec)) windows.push_back(decoder->attention.window);
  }
  return windows;
}

TEST(Models, GptOss) {
  const Json sizes = {{"num_local_experts", 8}, {"num_experts_per_tok", 2}, {"num_hidden_layers", 4}};
  const auto with = [&](const Json& changes) {
    Json config = Config("gpt_oss", sizes);
    config.update(changes);
    return config;
  };
  const LayerGraph graph = Build(with(Json::object()));
  const DecoderSpec& decoder = Decoder(graph);
  EXPECT_TRUE(decoder.attention.sinks && decoder.attention.qkv_bias && decoder.attention.output_bias);
  EXPECT_EQ(decoder.attention.head_dim, 64);
  const RopeSpec& rope = decoder.attention.rope;  // transformers' defaults
  EXPECT_TRUE(rope.scaling == RopeSpec::Scaling::kYarn && !rope.truncate);
  EXPECT_EQ(rope.theta, 150000);
  EXPECT_EQ(rope.factor, 32);
  EXPECT_EQ(WindowsOf(with(Json::object())), (std::vector<int64_t>{128, 0, 128, 0}));
  EXPECT_EQ(WindowsOf(with({{"sliding_window", 5}, {"layer_types", std::vector<std::string>(4, "full_attention")}})),
            (std::vector<int64_t>{0, 0, 0, 0}));
  EXPECT_EQ(decoder.experts->clamp, 7);
  EXPECT_EQ(decoder.experts->alpha, 1.702);
  EXPECT_EQ(Decoder(Build(with({{"swiglu_limit", 3.5}, {"swiglu_alpha", 1.0}}))).experts->clamp, 3.5);
  EXPECT_NE(RefusalOf(with({{"experts_per_token", 3}})).find("experts_per_token is 3; only 2"), std::string::npos);
  EXPECT_NE(RefusalOf(with({{"swiglu_limit", 0.0}})).find("swiglu_limit = 0"), std::string::npos);
  EXPECT_NE(RefusalOf(with({{"sliding_window", nullptr}})).find("sliding_window is null"), std::string::npos);
}

// Files hold the experts of a layer in one tensor, with dims swapped; of sinks each head has one.
TEST(Models, GptOssFiles) {
  const LayerGraph graph = Build(Config("gpt_oss", {{"num_local_experts", 8}, {"num_experts_per_tok", 2}}));
  std::map<std::string, Shape> shapes;
  for (const Parameter& parameter : ParametersOf(graph, graph.layers[1], {.size = 2})) {
    for (const HfTensor& tensor : parameter.hf) shapes[tensor.name] = tensor.shape;
  }
  const std::string mlp = "model.layers.0.mlp.";
  EXPECT_EQ(shapes.at(mlp + "experts.gate_up_proj"), (Shape{8, 32, 96}));
  EXPECT_EQ(shapes.at(mlp + "experts.gate_up_proj_bias"), (Shape{8, 96}));
  EXPECT_EQ(shapes.at(mlp + "experts.down_proj"), (Shape{8, 48, 32}));
  EXPECT_EQ(shapes.at(mlp + "experts.down_proj_bias"), (Shape{8, 32}));
  EXPECT_EQ(shapes.at(mlp + "router.bias"), (Shape{8}));
  EXPECT_EQ(shapes.at("model.layers.0.self_attn.sinks"), (Shape{4}));
}

// Kimi-K2's files are DeepSeek-V3's under another model_type.
TEST(Models, KimiK2IsDeepseekV3) {
  Json kimi = DeepseekConfig("kimi_k2");
  kimi.update({{"n_group", 1}, {"topk_group", 1}, {"num_nextn_predict_layers", 0}, {"aux_loss_alpha", 0.001}});
  Json deepseek = kimi;
  deepseek["model_type"] = "deepseek_v3";
  LayerGraph graph = Build(kimi);
  graph.family = "deepseek_v3";
  EXPECT_EQ(ToText(graph), ToText(Build(deepseek)));
  EXPECT_EQ(std::get<DecoderSpec>(graph.layers[2].spec).experts->router.scores, RouterRule::Scores::kSigmoid);
  EXPECT_EQ(ClassNameOf("kimi_k2"), "DeepseekV3");
}

// As transformers reads the keys: a window that is missing is its default, one that is null is none.
TEST(Models, HaveTheWindowsOfTheirKeys) {
  using Windows = std::vector<int64_t>;
  const auto with = [](const char* family, Json keys) {
    keys["num_hidden_layers"] = 3;
    return Config(family, keys);
  };
  EXPECT_EQ(WindowsOf(with("mistral", {{"sliding_window", 7}})), (Windows{7, 7, 7}));
  EXPECT_EQ(WindowsOf(with("mistral", {{"sliding_window", nullptr}})), (Windows{0, 0, 0}));
  EXPECT_EQ(WindowsOf(with("mistral", Json::object())), (Windows{4096, 4096, 4096}));
  EXPECT_EQ(WindowsOf(with("mixtral", {{"sliding_window", 7}, {"num_local_experts", 2}, {"num_experts_per_tok", 1}})),
            (Windows{7, 7, 7}));
  const Json qwen = {{"use_sliding_window", true}, {"sliding_window", 5}, {"max_window_layers", 1}};
  EXPECT_EQ(WindowsOf(with("qwen2", qwen)), (Windows{0, 5, 5}));
  EXPECT_EQ(WindowsOf(with("qwen3", qwen)), (Windows{0, 5, 5}));
  EXPECT_EQ(WindowsOf(with("qwen2", {{"sliding_window", 5}, {"max_window_layers", 1}})), (Windows{0, 0, 0}));
  Json listed = qwen;
  listed["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
  EXPECT_EQ(WindowsOf(with("qwen2", listed)), (Windows{5, 0, 5}));
  listed["layer_types"] = {"sliding_attention"};
  EXPECT_EQ(RefusalOf(with("qwen2", listed)), "config.json: layer_types has 1 entries; num_hidden_layers is 3");
  listed["layer_types"] = {"full_attention", "linear_attention", "full_attention"};
  EXPECT_EQ(RefusalOf(with("qwen2", listed)),
            "config.json: layer_types has 'linear_attention' for layer 1; wanted "
            "full_attention or sliding_attention");
}

}  // namespace
}  // namespace trireme
