// Models that see: the layers, names and refusals that follow from their configs; where the tower may lie in a
// pipeline; and which of their parts a tuning reaches.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "core/base/error.h"
#include "models/families.h"
#include "parallel/graph/parameters.h"
#include "parallel/graph/partition.h"
#include "parallel/graph/tuning.h"

namespace trireme {
namespace {

Json Text(const Json& rope) {
  return {{"vocab_size", 101},        {"hidden_size", 32},        {"num_hidden_layers", 5},
          {"num_attention_heads", 2}, {"num_key_value_heads", 1}, {"head_dim", 16},
          {"intermediate_size", 48},  {"hidden_act", "silu"},     {"rope_parameters", rope}};
}

Json Vision(const Json& more) {
  Json vision = {{"depth", 3},      {"hidden_size", 16},    {"num_heads", 2}, {"intermediate_size", 24},
                 {"patch_size", 4}, {"out_hidden_size", 32}};
  vision.update(more);
  return vision;
}

Json Chunked() { return {{"rope_type", "default"}, {"rope_theta", 1e4}, {"mrope_section", {2, 3, 3}}}; }

Json Qwen25(const Json& changes = Json::object()) {
  Json config = {{"model_type", "qwen2_5_vl"},
                 {"text_config", Text(Chunked())},
                 {"vision_config", Vision({{"window_size", 16}, {"fullatt_block_indexes", {1}}})},
                 {"image_token_id", 99}};
  config.update(changes, /*merge_objects=*/true);
  return config;
}

Json Qwen3(const Json& changes = Json::object()) {
  Json rope = Chunked();
  rope["mrope_interleaved"] = true;
  Json config = {{"model_type", "qwen3_vl"},
                 {"text_config", Text(rope)},
                 {"vision_config", Vision({{"num_position_embeddings", 36}, {"deepstack_visual_indexes", {0, 2}}})},
                 {"image_token_id", 99}};
  config.update(changes, /*merge_objects=*/true);
  return config;
}

Json Tiled(const Json& changes = Json::object()) {
  Json text = Text({{"rope_type", "default"}, {"rope_theta", 1e4}});
  text["model_type"] = "qwen2";
  Json config = {{"model_type", "internvl"},
                 {"text_config", text},
                 {"vision_config",
                  {{"num_hidden_layers", 2},
                   {"hidden_size", 16},
                   {"num_attention_heads", 2},
                   {"intermediate_size", 24},
                   {"image_size", {16, 16}},
                   {"patch_size", {4, 4}},
                   {"attention_bias", true}}},
                 {"image_seq_length", 4},
                 {"image_token_id", 99}};
  config.update(changes, /*merge_objects=*/true);
  return config;
}

LayerGraph Build(const Json& config) { return BuildGraph(HfConfig(config, "config.json")); }

std::string Refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "nothing was refused";
}
void ExpectRefused(const Json& config, const std::string& part) {
  EXPECT_NE(Refusal([&] { Build(config); }).find(part), std::string::npos) << Refusal([&] { Build(config); });
}

std::set<std::string> NamesIn(const LayerGraph& graph) {
  std::set<std::string> names;
  for (const Layer& layer : graph.layers) {
    for (const Parameter& parameter : ParametersOf(graph, layer, {})) {
      for (const HfTensor& tensor : parameter.hf) names.insert(tensor.name);
    }
  }
  return names;
}

TEST(Seeing, TheTowerComesBeforeTheEmbedding) {
  const LayerGraph graph = Build(Qwen3());
  EXPECT_EQ(EmbeddingIndex(graph), 5u);
  EXPECT_EQ(TapsIn(graph), 2);
  EXPECT_EQ(HiddenOf(graph), 32);
  EXPECT_EQ(graph.images->placeholder, 99);
  EXPECT_EQ(graph.images->elements, 96);
  EXPECT_EQ(std::get<DecoderSpec>(graph.layers[6].spec).taps, 2);
  EXPECT_EQ(std::get<DecoderSpec>(graph.layers[7].spec).taps, 1);
  EXPECT_EQ(std::get<DecoderSpec>(graph.layers[8].spec).taps, 0);
}

TEST(Seeing, NamesAreThoseOfTheFiles) {
  const std::set<std::string> old_names = NamesIn(Build(Qwen25())), names = NamesIn(Build(Qwen3()));
  for (const char* name :
       {"visual.patch_embed.proj.weight", "visual.blocks.2.attn.qkv.bias", "visual.merger.mlp.2.weight",
        "model.layers.4.self_attn.q_proj.bias", "model.embed_tokens.weight", "lm_head.weight"}) {
    EXPECT_TRUE(old_names.contains(name)) << name;
  }
  for (const char* name :
       {"model.visual.pos_embed.weight", "model.visual.blocks.0.mlp.linear_fc1.bias",
        "model.visual.deepstack_merger_list.1.norm.bias", "model.language_model.layers.4.self_attn.q_norm.weight",
        "model.language_model.norm.weight", "lm_head.weight"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(Seeing, InternVLHasTilesAndATextModelByItsName) {
  const LayerGraph graph = Build(Tiled());
  EXPECT_EQ(graph.images->tile, 4);
  EXPECT_EQ(graph.images->elements, 48);
  const std::set<std::string> names = NamesIn(graph),
                              wide = NamesIn(Build(Tiled(
                                  {{"text_config", {{"model_type", "qwen3"}}},
                                   {"vision_config",
                                    {{"norm_type", "rms_norm"}, {"use_qk_norm", true}, {"attention_bias", false}}}})));
  for (const char* name : {"vision_tower.embeddings.cls_token", "vision_tower.embeddings.position_embeddings",
                           "vision_tower.encoder.layer.1.lambda_2",
                           "vision_tower.encoder.layer.0.attention.k_proj.bias", "multi_modal_projector.linear_2.bias",
                           "language_model.model.layers.4.self_attn.q_proj.bias", "language_model.lm_head.weight"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  EXPECT_TRUE(wide.contains("vision_tower.encoder.layer.0.attention.q_norm.weight"));
  EXPECT_TRUE(wide.contains("language_model.model.layers.0.self_attn.k_norm.weight"));
  EXPECT_FALSE(wide.contains("vision_tower.encoder.layer.0.layernorm_before.bias"));
}

TEST(Seeing, OlderFilesHaveTheTextModelsKeysAtTheRoot) {
  Json flat = Qwen25(), text = flat["text_config"];
  flat.erase("text_config");
  text.erase("rope_parameters");
  flat.update(text);
  flat["rope_theta"] = 1e4;
  flat["rope_scaling"] = {{"type", "mrope"}, {"mrope_section", {2, 3, 3}}};
  EXPECT_EQ(ToText(Build(flat)), ToText(Build(Qwen25())));
}

TEST(Seeing, TiedByTheRootOrByEither) {
  const Json in_text = {{"text_config", {{"tie_word_embeddings", true}}}};
  EXPECT_TRUE(HasTiedHead(Build(Qwen25(in_text))));
  EXPECT_FALSE(HasTiedHead(Build(Qwen3(in_text))));
  EXPECT_TRUE(HasTiedHead(Build(Qwen3({{"tie_word_embeddings", true}}))));
}

TEST(Seeing, RefusesWhatItWouldComputeWrongly) {
  ExpectRefused(Qwen25({{"text_config", {{"rope_parameters", {{"mrope_section", {2, 3, 4}}}}}}}),
                "add up to 9; wanted 3 for the 8");
  ExpectRefused(Qwen3({{"text_config", {{"rope_parameters", {{"mrope_interleaved", false}}}}}}),
                "mrope_interleaved is false");
  ExpectRefused(Qwen3({{"vision_config", {{"hidden_act", "gelu"}}}}), "hidden_act");
  ExpectRefused(Qwen3({{"vision_config", {{"deepstack_visual_indexes", {2, 0}}}}}),
                "wanted ascending indices of the 3 layers");
  ExpectRefused(Qwen3({{"vision_config", {{"num_position_embeddings", 35}}}}), "35 is no square number");
  ExpectRefused(Qwen3({{"vision_config", {{"out_hidden_size", 24}}}}), "out_hidden_size is 24");
  ExpectRefused(Qwen3({{"vision_config", {{"window_attention", true}}}}), "window_attention");
  ExpectRefused(Qwen25({{"audio_config", {{"depth", 1}}}}), "audio_config");
  ExpectRefused(Tiled({{"vision_config", {{"image_size", {16, 32}}}}}), "wanted a square");
  ExpectRefused(Tiled({{"image_seq_length", 256}}),
                "image_seq_length is 256; a tile of vision_config.image_size has 4");
  ExpectRefused(Tiled({{"vision_config", {{"use_mean_pooling", false}}}}), "use_mean_pooling");
  ExpectRefused(Tiled({{"text_config", {{"model_type", "gpt2"}}}}), "text_config.model_type 'gpt2'");
  ExpectRefused(Tiled({{"model_type", "internvl_chat"}}), "whose name ends in -hf");
  ExpectRefused(Qwen25({{"vision_config", {{"window_size", 20}}}}),
                "window_size = 20; wanted a multiple of a token's 8 pixels");
  ExpectRefused(Qwen25({{"image_token_id", 101}}), "image_token_id is 101; the vocabulary has 101 tokens");
  ExpectRefused(Qwen3({{"vision_config", {{"depth", 7}, {"deepstack_visual_indexes", {0, 1, 2, 3, 4, 5}}}}}),
                "names 6 layers; the text model has 5");
  Json without = Qwen3();
  without.erase("image_token_id");
  ExpectRefused(without, "image_token_id");
}

TEST(Seeing, LayersThatTakeFeaturesStayInTheFirstStage) {
  const LayerGraph graph = Build(Qwen3());
  for (const int stages : {1, 2, 3, 4}) EXPECT_GE(PartitionLayers(graph, stages, {}, 64).front().end, 8u) << stages;
  EXPECT_EQ(PartitionLayers(graph, 2, {3, 2}, 64).front(), (StageLayers{0, 9}));
  EXPECT_NE(Refusal([&] { PartitionLayers(graph, 2, {1, 4}, 64); }).find("first stage has 1 decoder layers"),
            std::string::npos);
  EXPECT_NE(Refusal([&] { PartitionLayers(graph, 5, {}, 64); }).find("at most 4 stages"), std::string::npos);
  EXPECT_EQ(LayersText(graph, {0, 8}), "vision.patch, vision.0-2, vision.merger, embedding, layers.0-1");
}

// Every tensor-parallel rank has all patches: no gradient of a norm or of a bias is a part.
TEST(Seeing, TheTowersReplicatedWeightsHaveWholeGradients) {
  const LayerGraph graph = Build(Qwen3());
  for (size_t i = 0; i < EmbeddingIndex(graph); ++i) {
    for (const Parameter& parameter : ParametersOf(graph, graph.layers[i], {.size = 2, .sequence = true})) {
      EXPECT_TRUE(parameter.declaration.partial_gradient.empty()) << parameter.declaration.name;
    }
  }
}

std::set<ModelPart> TrainedParts(const LayerGraph& graph) {
  std::set<ModelPart> parts;
  for (const Layer& layer : graph.layers) {
    if (!layer.trained || !layer.trained->empty() || !layer.low_rank.empty()) parts.insert(PartOf(layer));
  }
  return parts;
}

TEST(Seeing, AllLinearMeansTheLanguageModel) {
  for (const char* target : {"all-linear", "down_proj"}) {  // the tower has a down_proj, too
    LayerGraph graph = Build(Qwen25());
    ApplyAdapter(graph, PlanAdapter(graph, {"tuning.targets", {target}}, {"tuning.modules_to_save", {}},
                                    {.rank = 2, .alpha = 4}));
    EXPECT_EQ(TrainedParts(graph), std::set{ModelPart::kLanguage}) << target;
  }
  LayerGraph graph = Build(Qwen25());
  ApplyAdapter(graph, PlanAdapter(graph, {"tuning.targets", {"attn.qkv"}}, {"tuning.modules_to_save", {}},
                                  {.rank = 2, .alpha = 4}));
  EXPECT_EQ(TrainedParts(graph), std::set{ModelPart::kVision});
}

TEST(Seeing, PartsAreTargetsByName) {
  LayerGraph graph = Build(Qwen3());
  const AdapterPlan plan = PlanAdapter(graph, {"tuning.targets", {"vision", "aligner"}}, {"tuning.modules_to_save", {}},
                                       {.rank = 2, .alpha = 4});
  std::set<std::string> last_words;  // no norms, no patch embedding
  for (const auto& [name, module] : plan.modules) last_words.insert(name.substr(name.rfind('.') + 1));
  EXPECT_EQ(last_words, (std::set<std::string>{"qkv", "proj", "linear_fc1", "linear_fc2"}));
  EXPECT_EQ(plan.modules.size(), 3u * 4 + 3 * 2);
  ApplyAdapter(graph, plan);
  EXPECT_EQ(TrainedParts(graph), (std::set{ModelPart::kVision, ModelPart::kAligner}));
}

// "0" would be a layer's name, too, and "proj" the patch embedding's.
TEST(Seeing, TargetsOfAdaptersAreUnambiguous) {
  LayerGraph graph = Build(Qwen25());
  ApplyAdapter(graph, PlanAdapter(graph, {"tuning.targets", {"aligner", "attn.qkv", "attn.proj"}},
                                  {"tuning.modules_to_save", {}}, {.rank = 2, .alpha = 4}));
  EXPECT_EQ(graph.adapter->targets,
            (std::set<std::string>{"qkv", "visual.blocks.0.attn.proj", "visual.blocks.1.attn.proj",
                                   "visual.blocks.2.attn.proj", "visual.merger.mlp.0", "visual.merger.mlp.2"}));
}

TEST(Seeing, FrozenPartsTrainNothing) {
  LayerGraph graph = Build(Qwen3());
  FreezeParts(graph, {ModelPart::kVision, ModelPart::kLanguage});
  EXPECT_EQ(TrainedParts(graph), std::set{ModelPart::kAligner});
  EXPECT_NE(Refusal([&] { FreezeParts(graph, {ModelPart::kAligner}); }).find("nothing to train"), std::string::npos);
}

}  // namespace
}  // namespace trireme
