// Reward models, and families whose configs tell several models apart.
#include <gtest/gtest.h>

#include "models/reward_model.h"
#include "parallel/graph/parameters.h"
#include "tests/models/small_configs.h"

namespace trireme {
namespace {

TEST(RewardModels, HaveAValueHeadInPlaceOfTheLogits) {
  const Json config = Config("qwen2", {{"architectures", {"Qwen2ForSequenceClassification"}},
                                       {"id2label", {{"0", "LABEL_0"}}},
                                       {"tie_word_embeddings", true}});
  const LayerGraph graph = Build(config);
  const Layer& head = graph.layers.back();
  EXPECT_TRUE(std::get<HeadSpec>(head.spec).scores);
  EXPECT_FALSE(std::get<HeadSpec>(head.spec).tied) << "there is no lm_head to tie";
  EXPECT_EQ(head.hf_names.at("score.weight"), "score.weight");
  EXPECT_FALSE(head.hf_names.contains("logits.weight"));
  Json several = config;
  several["id2label"]["1"] = "LABEL_1";
  EXPECT_EQ(std::get<HeadSpec>(Build(several).layers.back().spec).vocabulary, 2) << "a classifier";
}

TEST(RewardModels, AClassifierNamesItsLabels) {
  const Json causal =
      Config("qwen3", {{"architectures", {"Qwen3ForCausalLM"}}, {"num_labels", 7}, {"pad_token_id", 7}});
  const Json config = Json::parse(ClassifierConfig(causal.dump(), "nowhere", {"bad", "good"}, "regression"));
  EXPECT_EQ(config["architectures"], Json::array({"Qwen3ForSequenceClassification"}));
  EXPECT_EQ(config["id2label"], (Json{{"0", "bad"}, {"1", "good"}}));
  EXPECT_EQ(config["label2id"], (Json{{"bad", 0}, {"good", 1}}));
  EXPECT_EQ(config["problem_type"], "regression");
  EXPECT_FALSE(config.contains("num_labels")) << "id2label says it";
  const Json vectors = Json::parse(VectorModelConfig(causal.dump(), "nowhere", {64, 16}));
  EXPECT_EQ(vectors["architectures"], Json::array({"Qwen3Model"}));
  EXPECT_EQ(vectors["matryoshka_dimensions"], Json::array({64, 16})) << "where a server looks for the sizes";
}

TEST(RewardModels, AModelOfVectorsHasNoHead) {
  LayerGraph graph = Build(Config("qwen2", {{"tie_word_embeddings", true}}));
  RemoveHead(graph);
  const Layer& head = graph.layers.back();
  EXPECT_EQ(std::get<HeadSpec>(head.spec).vocabulary, 0);
  EXPECT_FALSE(std::get<HeadSpec>(head.spec).tied);
  EXPECT_FALSE(HasValueHead(graph));
}

TEST(RewardModels, AreRefusedWhereTransformersHasNoClassForThem) {
  const Json config = Config("granite", {{"architectures", {"GraniteForSequenceClassification"}}, {"num_labels", 1}});
  EXPECT_EQ(RefusalOf(config),
            "a reward model of the family granite: transformers has no GraniteForSequenceClassification "
            "that could load it; choose a model of another family");
}

TEST(RewardModels, TheConfigOfACausalModelBecomesOne) {
  const auto become = [](const Json& changes) {
    const std::string text = RewardModelConfig(Config("qwen3_moe", changes).dump(), "nowhere");
    EXPECT_EQ(RewardModelConfig(text, "nowhere"), text) << "a reward model's stays as it is";
    return Json::parse(text);
  };
  const Json config =
      become({{"architectures", {"Qwen3MoeForCausalLM"}}, {"pad_token_id", 7}, {"eos_token_id", {1, 2}}});
  EXPECT_EQ(config["architectures"], Json::array({"Qwen3MoeForSequenceClassification"}));
  EXPECT_EQ(config["id2label"], (Json{{"0", "LABEL_0"}}));
  EXPECT_EQ(config["pad_token_id"], 7);
  EXPECT_EQ(become({{"pad_token_id", 2}, {"eos_token_id", {1, 2}}})["pad_token_id"], Json()) << "it would hide the end";
  EXPECT_EQ(become(Json::object())["pad_token_id"], Json()) << "none is known";
}

int64_t PaddingOf(const Json& config) { return std::get<EmbeddingSpec>(Build(config).layers.front().spec).padding; }

TEST(Models, GiveThePaddingTokensRowNoGradient) {
  EXPECT_EQ(PaddingOf(Config("llama", {{"pad_token_id", 7}})), 7);
  EXPECT_EQ(PaddingOf(Config("llama", {{"pad_token_id", -1}})), 99) << "torch counts from the end";
  EXPECT_EQ(PaddingOf(Config("llama")), kNoPadding);
  EXPECT_EQ(PaddingOf(Config("olmo2", {{"pad_token_id", 0}})), 0);
  EXPECT_EQ(PaddingOf(Config("olmo2", {{"pad_token_id", nullptr}})), kNoPadding);
  EXPECT_EQ(PaddingOf(Config("olmo2")), 1) << "transformers' own default";
  EXPECT_EQ(PaddingOf(Config("phi3")), kNoPadding) << "its default is beyond this vocabulary";
  EXPECT_EQ(PaddingOf(Config("phi3", {{"vocab_size", 32064}})), 32000);
  EXPECT_EQ(
      RefusalOf(Config("llama", {{"pad_token_id", 100}})),
      "config.json: pad_token_id is 100; wanted a token of the vocabulary, which has 100 tokens (vocab_size), or null");
  EXPECT_NE(RefusalOf(Config("llama", {{"pad_token_id", "<pad>"}})).find("pad_token_id is \"<pad>\""),
            std::string::npos);
}

TEST(Models, WantPositiveNumbersWhereOthersGiveNaN) {
  for (const char* key : {"rope_theta", "rms_norm_eps"}) {
    EXPECT_EQ(RefusalOf(Config("llama", {{key, -1}})), Concat("config.json: ", key, " is -1; wanted a number above 0"));
    EXPECT_NE(RefusalOf(Config("llama", {{key, 0}})), "accepted") << key;
  }
  EXPECT_EQ(RefusalOf(Config("llama", {{"rope_parameters", {{"rope_type", "linear"}, {"factor", -2.0}}}})),
            "config.json: rope_parameters: factor is -2.0; wanted a number above 0");
}

Json Baichuan(const Json& changes) {
  Json config = Config("baichuan", {{"architectures", {"BaichuanForCausalLM"}}, {"max_position_embeddings", 64}});
  config.erase("num_key_value_heads");
  config.update(changes);
  return config;
}

TEST(Models, TellBaichuansApart) {
  const auto normalised = [](const Json& config) {
    return std::get<HeadSpec>(Build(config).layers.back().spec).normalised;
  };
  EXPECT_TRUE(normalised(Baichuan(Json::object())));
  EXPECT_FALSE(normalised(Baichuan({{"architectures", {"BaiChuanForCausalLM"}}})));
  EXPECT_NE(RefusalOf(Baichuan({{"architectures", {"Other"}}})).find("architectures has 'Other'"), std::string::npos);
  EXPECT_NE(RefusalOf(Baichuan({{"max_position_embeddings", nullptr}, {"model_max_length", 64}})).find("ALiBi"),
            std::string::npos);
  for (const char* key : {"rope_theta", "num_key_value_heads", "z_loss_weight"}) {
    EXPECT_NE(RefusalOf(Baichuan({{key, 2}})).find(key), std::string::npos) << key;
  }
}

TEST(Models, WantMiniCpmFactors) {
  Json config = Config("minicpm", {{"scale_emb", 12}, {"scale_depth", 1.4}, {"dim_model_base", 8}});
  const LayerGraph graph = Build(config);
  EXPECT_DOUBLE_EQ(std::get<EmbeddingSpec>(graph.layers.front().spec).scale, 12);
  EXPECT_DOUBLE_EQ(std::get<DecoderSpec>(graph.layers[1].spec).branch_scale, 1.4 / std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(std::get<HeadSpec>(graph.layers.back().spec).logit_scale, 0.25);
  EXPECT_TRUE(HasTiedHead(graph));
  config.erase("scale_emb");
  EXPECT_EQ(RefusalOf(config), "config.json: scale_emb is missing; wanted a number above 0");
  config["scale_emb"] = 12;
  config["sparse_config"] = {{"topk", 64}};
  EXPECT_NE(RefusalOf(config).find("sparse_config"), std::string::npos);
}

TEST(Models, RefuseToShareGroupsOfInternLm2) {
  const LayerGraph graph = Build(Config("internlm2"));
  const auto split = [&](int ranks) { return ParametersOf(graph, graph.layers[1], {.size = ranks}); };
  EXPECT_EQ(split(2)[1].hf.front().name, "model.layers.0.attention.wqkv.weight");
  EXPECT_THROW(split(4), Error);  // each group of heads is on one rank
}

}  // namespace
}  // namespace trireme
