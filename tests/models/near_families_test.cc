// Families that combine what others have: layers without a rotary embedding, windows in some, norms at one end, experts
// in some layers, and what of their keys is refused.
#include <cmath>

#include "tests/models/small_configs.h"

namespace trireme {
namespace {

std::vector<const AttentionSpec*> AttentionsOf(const LayerGraph& graph) {
  std::vector<const AttentionSpec*> found;
  for (const Layer& layer : graph.layers) {
    if (const DecoderSpec* decoder = DecoderOf(layer.spec)) found.push_back(&decoder->attention);
  }
  return found;
}

// For each layer whether any angle of its rotary embedding is not 0.
std::vector<bool> RotatesOf(const Json& config) {
  const LayerGraph graph = Build(config);
  std::vector<bool> rotates;
  for (const AttentionSpec* attention : AttentionsOf(graph)) {
    double sum = 0;
    for (const double frequency : InverseFrequencies(attention->rope)) sum += std::abs(frequency);
    rotates.push_back(sum > 0);
  }
  return rotates;
}

std::vector<int64_t> WindowSizesOf(const Json& config) {
  const LayerGraph graph = Build(config);
  std::vector<int64_t> windows;
  for (const AttentionSpec* attention : AttentionsOf(graph)) windows.push_back(attention->window);
  return windows;
}

std::vector<bool> ExpertLayersOf(const Json& config) {
  const LayerGraph graph = Build(config);
  std::vector<bool> sparse;
  for (const Layer& layer : graph.layers) {
    if (const DecoderSpec* decoder = DecoderOf(layer.spec)) sparse.push_back(decoder->experts.has_value());
  }
  return sparse;
}

Json With(Json config, const Json& changes) {
  config.update(changes);
  return config;
}

TEST(NearFamilies, SmolLM3HasLayersWithoutARotaryEmbedding) {
  const Json five = Config("smollm3", {{"num_hidden_layers", 5}});
  EXPECT_EQ(RotatesOf(five), (std::vector<bool>{true, true, true, false, true}));
  EXPECT_EQ(RotatesOf(With(five, {{"no_rope_layer_interval", 2}})),
            (std::vector<bool>{true, false, true, false, true}));
  const Json told = With(five, {{"no_rope_layers", {0, 1, 1, 1, 0, 1}}});
  EXPECT_EQ(RotatesOf(told), (std::vector<bool>{false, true, true, true, false})) << "a longer list is taken";
  EXPECT_EQ(RefusalOf(With(five, {{"no_rope_layers", {1, 0}}})),
            "config.json: no_rope_layers has 2 entries; num_hidden_layers is 5");
  // Windows are for the layers without one, unless layer_types says otherwise.
  const Json windows = {{"use_sliding_window", true}, {"sliding_window", 9}};
  EXPECT_EQ(WindowSizesOf(With(told, windows)), (std::vector<int64_t>{9, 0, 0, 0, 9}));
  const Json kinds = {
      {"layer_types",
       {"sliding_attention", "sliding_attention", "full_attention", "full_attention", "full_attention"}}};
  EXPECT_EQ(WindowSizesOf(With(With(told, windows), kinds)), (std::vector<int64_t>{9, 9, 0, 0, 0}));
  EXPECT_EQ(RefusalOf(With(told, kinds)),
            "config.json: layer_types has 'sliding_attention' for layer 0; wanted full_attention, or "
            "use_sliding_window: true with a sliding_window");
  EXPECT_TRUE(std::get<HeadSpec>(Build(five).layers.back().spec).tied) << "unless the config says otherwise";
  EXPECT_EQ(Decoder(Build(five)).attention.rope.theta, 2e6);
}

TEST(NearFamilies, Exaone4RotatesWhereThereAreWindows) {
  const Json four = Config("exaone4", {{"num_hidden_layers", 4}, {"sliding_window", 9}});
  EXPECT_EQ(RotatesOf(four), (std::vector<bool>{true, true, true, false}));
  EXPECT_EQ(WindowSizesOf(four), (std::vector<int64_t>{9, 9, 9, 0}));
  const Json full = With(four, {{"sliding_window", nullptr}});
  EXPECT_EQ(RotatesOf(full), (std::vector<bool>(4, true)));
  EXPECT_EQ(WindowSizesOf(full), (std::vector<int64_t>(4, 0)));
  const Json kinds = {{"layer_types", {"full_attention", "sliding_attention", "full_attention", "sliding_attention"}},
                      {"sliding_window_pattern", "LLLG"}};
  EXPECT_EQ(WindowSizesOf(With(four, kinds)), (std::vector<int64_t>{0, 9, 0, 9}));
  EXPECT_NE(RefusalOf(With(full, kinds)).find("sliding_window is null"), std::string::npos);
  EXPECT_NE(RefusalOf(With(four, {{"sliding_window_pattern", "LLLG"}})).find("sliding_window_pattern is \"LLLG\""),
            std::string::npos);
  const LayerGraph graph = Build(four);
  const DecoderSpec& decoder = Decoder(graph);
  EXPECT_TRUE(decoder.attention.qk_norm && !decoder.attention.norms.input && decoder.mlp.norms.output);
  EXPECT_EQ(graph.layers[1].hf_names.at("attention_output_norm.weight"),
            "model.layers.0.post_attention_layernorm.weight");
}

TEST(NearFamilies, GemmaNormalisesWhatBranchesRead) {
  const DecoderSpec gemma = Decoder(Build(Config("gemma", {{"hidden_act", "gelu"}, {"head_dim", 16}})));
  EXPECT_TRUE(gemma.attention.norms.input && !gemma.attention.norms.output && gemma.attention.norms.offset == 1);
  EXPECT_EQ(gemma.attention.scale, 0) << "1 / sqrt(head_dim)";
  EXPECT_EQ(gemma.mlp.activation, MlpSpec::Activation::kGeluTanh);
  EXPECT_EQ(Decoder(Build(Config("gemma", {{"hidden_act", "gelu_pytorch_tanh"}}))).attention.head_dim, 256);
  EXPECT_NE(RefusalOf(Config("gemma")).find("hidden_act is \"silu\""), std::string::npos);
  EXPECT_NE(RefusalOf(Config("gemma", {{"hidden_act", "gelu"}, {"query_pre_attn_scalar", 9}})), "accepted");
}

TEST(NearFamilies, SeedOssTakesTheReleasedDropoutAndNoOther) {
  EXPECT_EQ(RefusalOf(Config("seed_oss", {{"attention_dropout", 0.1}, {"residual_dropout", 0.1}})), "accepted");
  EXPECT_EQ(RefusalOf(Config("seed_oss", {{"attention_dropout", 0.0}, {"residual_dropout", 0}})), "accepted");
  EXPECT_EQ(RefusalOf(Config("seed_oss", {{"residual_dropout", 0.2}})),
            "config.json: residual_dropout is 0.2; only 0.0 is supported");
  const DecoderSpec seed = Decoder(Build(Config("seed_oss")));
  EXPECT_TRUE(seed.attention.qkv_bias && !seed.attention.output_bias);
}

TEST(NearFamilies, GlmIsGlm4WithoutNormsAtTheEnd) {
  const DecoderSpec glm = Decoder(Build(Config("glm")));
  EXPECT_TRUE(glm.attention.interleaved && glm.attention.qkv_bias && !glm.attention.norms.output);
  EXPECT_EQ(RefusalOf(Config("chatglm")),
            "config.json: model_type 'chatglm' has the names of GLM's own code; use the directory of the same model in "
            "transformers' format, whose name ends in -hf (such as zai-org/glm-4-9b-chat-hf)");
}

const Json kRouted = {{"n_routed_experts", 8},
                      {"num_experts_per_tok", 2},
                      {"moe_intermediate_size", 24},
                      {"n_shared_experts", 1},
                      {"num_hidden_layers", 3}};

TEST(NearFamilies, Dots1) {
  const Json config = With(Config("dots1", kRouted), {{"first_k_dense_replace", 2}, {"sliding_window", nullptr}});
  EXPECT_EQ(ExpertLayersOf(config), (std::vector<bool>{false, false, true}));
  EXPECT_EQ(WindowSizesOf(config), (std::vector<int64_t>(3, 0)));
  EXPECT_EQ(WindowSizesOf(With(config, {{"sliding_window", 9}, {"max_window_layers", 1}})),
            (std::vector<int64_t>{0, 9, 9}));
  const Json window_first = {{"sliding_window", 9},
                             {"layer_types", {"sliding_attention", "full_attention", "full_attention"}}};
  EXPECT_EQ(WindowSizesOf(With(config, window_first)), (std::vector<int64_t>{9, 0, 0}));
  const LayerGraph graph = Build(config);
  const RouterRule rule = std::get<DecoderSpec>(graph.layers[3].spec).experts->router;
  EXPECT_TRUE(rule.correction_bias && !rule.normalise) << "transformers' default of norm_topk_prob";
  EXPECT_EQ(RefusalOf(With(config, {{"scoring_func", "noaux_tc"}})), "accepted") << "as some files have it";
  EXPECT_NE(RefusalOf(With(config, {{"scoring_func", "softmax"}})), "accepted");
}

TEST(NearFamilies, KExaoneHasNormsAtTheBeginning) {
  const Json config = Config("exaone_moe", {{"num_hidden_layers", 4},
                                            {"num_experts", 8},
                                            {"num_experts_per_tok", 2},
                                            {"moe_intermediate_size", 24},
                                            {"num_shared_experts", 1},
                                            {"sliding_window", 9},
                                            {"num_nextn_predict_layers", 1}});
  EXPECT_EQ(ExpertLayersOf(config), (std::vector<bool>{false, true, true, true}));
  EXPECT_EQ(ExpertLayersOf(With(config, {{"first_k_dense_replace", 0}})), (std::vector<bool>(4, true)));
  EXPECT_EQ(RotatesOf(config), (std::vector<bool>{true, true, true, false}));
  const LayerGraph graph = Build(config);
  EXPECT_TRUE(Decoder(graph).attention.norms.input && !Decoder(graph).attention.norms.output);
  EXPECT_EQ(graph.layers[2].hf_names.at("router.bias"), "model.layers.1.mlp.e_score_correction_bias");
  EXPECT_EQ(std::get<DecoderSpec>(graph.layers[2].spec).experts->router.scale, 2.5);
  EXPECT_EQ(graph.unused, (std::vector<std::string>{"mtp."}));
}

TEST(NearFamilies, LingOfTheSecondGeneration) {
  const Json config = Config("bailing_moe", {{"architectures", {"BailingMoeV2ForCausalLM"}},
                                             {"num_hidden_layers", 3},
                                             {"num_experts", 8},
                                             {"num_experts_per_tok", 2},
                                             {"moe_intermediate_size", 24},
                                             {"num_shared_experts", 1},
                                             {"first_k_dense_replace", 1},
                                             {"n_group", 4},
                                             {"topk_group", 2},
                                             {"head_dim", 16},
                                             {"partial_rotary_factor", 0.5},
                                             {"num_nextn_predict_layers", 1}});
  const LayerGraph graph = Build(config);
  EXPECT_EQ(ExpertLayersOf(config), (std::vector<bool>{false, true, true}));
  EXPECT_EQ(Decoder(graph).attention.rope.rotary_dim, 8);
  EXPECT_EQ(graph.layers[0].hf_names.at("embedding.weight"), "model.word_embeddings.weight");
  EXPECT_EQ(graph.layers[1].hf_names.at("attention.k.weight"), "model.layers.0.attention.query_key_value.weight");
  EXPECT_EQ(graph.unused, (std::vector<std::string>{"model.layers.3."}));
  EXPECT_EQ(std::get<DecoderSpec>(graph.layers[2].spec).experts->router.groups, 4);
  EXPECT_EQ(RefusalOf(With(config, {{"architectures", {"BailingMoeForCausalLM"}}})),
            "config.json: architectures has 'BailingMoeForCausalLM'; wanted BailingMoeV2ForCausalLM, as Ling 2.0 and "
            "Ring 2.0 have; the layers of others differ");
  EXPECT_NE(RefusalOf(With(config, {{"moe_shared_expert_intermediate_size", 48}})), "accepted");
  EXPECT_NE(RefusalOf(With(config, {{"score_function", "softmax"}})), "accepted");
}

TEST(NearFamilies, Hy3NamesItsRouterInItsOwnWay) {
  const Json config = Config("hy_v3", {{"num_experts", 8}, {"num_experts_per_tok", 2}, {"num_hidden_layers", 3}});
  EXPECT_EQ(ExpertLayersOf(config), (std::vector<bool>{false, true, true})) << "all but the first";
  EXPECT_EQ(ExpertLayersOf(With(config, {{"mlp_layer_types", {"sparse", "dense", "sparse"}}})),
            (std::vector<bool>{true, false, true}));
  EXPECT_EQ(RefusalOf(With(config, {{"mlp_layer_types", {"sparse"}}})),
            "config.json: mlp_layer_types has 1 entries; num_hidden_layers is 3");
  EXPECT_EQ(RefusalOf(With(config, {{"mlp_layer_types", {"sparse", "dense", "wide"}}})),
            "config.json: mlp_layer_types has 'wide'; wanted dense or sparse");
  const LayerGraph graph = Build(With(config, {{"num_nextn_predict_layers", 1}}));
  EXPECT_EQ(graph.unused, (std::vector<std::string>{"model.layers.3."}));
  EXPECT_EQ(graph.layers[2].hf_names.at("router.bias"), "model.layers.1.mlp.expert_bias");
  const ExpertsSpec& experts = *std::get<DecoderSpec>(graph.layers[2].spec).experts;
  EXPECT_EQ(experts.router, (RouterRule{.experts = 8,
                                        .top_k = 2,
                                        .scores = RouterRule::Scores::kSigmoid,
                                        .correction_bias = true,
                                        .normalise = true,
                                        .normalise_eps = 1e-20,
                                        .scale = 2.826}));
  EXPECT_EQ(experts.shared_ffn, 1536);
}

TEST(NearFamilies, Glm47FlashHasLatentAttentionAndSolarOpenOnlyExperts) {
  const Json latent = {{"kv_lora_rank", 16},    {"q_lora_rank", 12}, {"qk_nope_head_dim", 8},
                       {"qk_rope_head_dim", 4}, {"v_head_dim", 6},   {"num_nextn_predict_layers", 1}};
  const Json flash = With(Config("glm4_moe_lite", kRouted), latent);
  EXPECT_EQ(ExpertLayersOf(flash), (std::vector<bool>{false, true, true}));
  EXPECT_TRUE(Decoder(Build(flash)).attention.latent->interleaved);
  EXPECT_EQ(Build(flash).unused, (std::vector<std::string>{"model.layers.3."}));
  EXPECT_NE(RefusalOf(With(flash, {{"partial_rotary_factor", 0.5}})), "accepted");
  Json solar = Config("solar_open", kRouted);
  solar.erase("intermediate_size");
  EXPECT_EQ(ExpertLayersOf(solar), (std::vector<bool>(3, true)));
  EXPECT_EQ(Decoder(Build(solar)).attention.rope.theta, 1e6);
  EXPECT_NE(RefusalOf(With(solar, {{"first_k_dense_replace", 1}})), "accepted");
}

TEST(NearFamilies, OlmoeNormalisesAllHeadsTogether) {
  const Json config = Config("olmoe", {{"num_experts", 8}, {"num_experts_per_tok", 3}});
  const DecoderSpec olmoe = Decoder(Build(config));
  EXPECT_TRUE(olmoe.attention.wide_qk_norm && olmoe.attention.norms.input);
  EXPECT_EQ(olmoe.experts->ffn, 48);
  EXPECT_EQ(olmoe.experts->router, (RouterRule{.experts = 8, .top_k = 3}));
  EXPECT_NE(RefusalOf(With(config, {{"clip_qkv", 8.0}})).find("clip_qkv is 8.0"), std::string::npos);
  EXPECT_NE(RefusalOf(With(config, {{"head_dim", 16}})).find("head_dim is 16; only 8"), std::string::npos);
}

}  // namespace
}  // namespace trireme
