// What ms-swift says of a model and of what is trained of it: towers in full beside adapters, rotary embeddings, FP8,
// the best checkpoint by a score, a teacher's likeliest tokens.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/translate/translated.h"

namespace trireme {
namespace {

Translation OfSft(const std::string& words) {
  return TranslatedCommand("swift sft --dataset d.jsonl --max_length 512 --split_dataset_ratio 0.1 " + words);
}

Translation OfMegatron(const std::string& words) {
  return TranslatedCommand("megatron sft --model Qwen/Qwen3-8B --dataset d.jsonl --max_length 64 --train_iters 9 " +
                           words);
}

TEST(TranslateSwiftModels, ATowerInFullBesideAdapters) {
  for (const char* model : {"Qwen/Qwen2.5-VL-7B-Instruct", "Qwen/Qwen3.5-35B-A3B"}) {
    const Config config = ConfigOf(OfSft(Concat("--tuner_type lora_llm --vit_lr 1e-5 --model ", model)));
    EXPECT_EQ(config.tuning().kind(), TUNING_LORA);
    ASSERT_EQ(config.tuning().modules_to_save_size(), 2);
    EXPECT_EQ(config.tuning().modules_to_save(0), "vision");
    EXPECT_EQ(config.tuning().modules_to_save(1), "aligner");
    EXPECT_EQ(config.tuning().dropout(), 0);
    EXPECT_EQ(config.optimizer().lr_by_name(0), "vision=0.1");
  }
  EXPECT_NE(AllOf(OfSft("--tuner_type lora_llm --model Qwen/Qwen3-8B").refused()).find("tells of none"),
            std::string::npos);
}

TEST(TranslateSwiftModels, TowersAreFrozenWhereNothingIsSaid) {
  EXPECT_EQ(ConfigOf(OfSft("--model Qwen/Qwen3.5-9B --tuner_type full")).tuning().freeze_size(), 2);
  EXPECT_EQ(ConfigOf(OfSft("--model Qwen/Qwen3-8B --tuner_type full")).tuning().freeze_size(), 0);
}

TEST(TranslateSwiftModels, ARotaryEmbeddingForTheLongestSequence) {
  const Config config = ConfigOf(OfSft("--model m --rope_scaling yarn --max_model_len 512"));
  EXPECT_EQ(config.model().rope().kind(), ROPE_YARN);
  EXPECT_EQ(config.model().rope().factor(), 0);  // what data.max_length needs
  EXPECT_EQ(ConfigOf(OfSft(R"(--model m --rope_scaling {"type":"linear","factor":4})")).model().rope().factor(), 4);
  EXPECT_NE(AllOf(OfSft("--model m --rope_scaling yarn --max_model_len 1024").refused()).find("give rope_scaling"),
            std::string::npos);
  EXPECT_NE(AllOf(OfSft("--model m --rope_scaling yarn").refused()).find("max_model_len"), std::string::npos);
}

TEST(TranslateSwiftModels, TheBestCheckpointByAScore) {
  const std::string scores = "--model m --predict_with_generate true --metric_for_best_model ";
  const Config config = ConfigOf(OfSft(scores + "rouge-l --greater_is_better true"));
  EXPECT_TRUE(config.eval().generate());
  EXPECT_EQ(config.eval().metric(), "rouge-l");
  EXPECT_EQ(ConfigOf(OfSft("--model m --metric_for_best_model eval_loss --greater_is_better false")).eval().metric(),
            "");
  EXPECT_NE(AllOf(OfSft(scores + "rouge-l --greater_is_better false").refused()).find("scores of answers the higher"),
            std::string::npos);
  EXPECT_NE(AllOf(OfSft("--model m --greater_is_better true").refused()).find("the lower they are"), std::string::npos);
  EXPECT_NE(AllOf(OfSft(scores + "acc").refused()).find("rouge-l"), std::string::npos);
}

TEST(TranslateSwiftModels, ProductsInFp8) {
  const Translation blocks =
      OfMegatron("--fp8_recipe blockwise --fp8_format e4m3 --fp8_param_gather true --attention_backend flash");
  EXPECT_EQ(ConfigOf(blocks).model().fp8(), FP8_ROWS);
  EXPECT_NE(AllOf(blocks.warnings()).find("128 x 128 weights there"), std::string::npos);
  EXPECT_NE(AllOf(OfMegatron("--fp8_format hybrid").warnings()).find("e5m2"), std::string::npos);
  EXPECT_NE(AllOf(OfMegatron("--fp8_format e4m3 --fp8_recipe mxfp8").refused()).find("fp8_recipe mxfp8"),
            std::string::npos);
  EXPECT_EQ(ConfigOf(OfMegatron("--fp8_format none")).model().fp8(), FP8_NONE);
}

TEST(TranslateSwiftModels, ATeachersLikeliestTokensAreTheWholeVocabulary) {
  const Translation result = TranslatedCommand(
      "swift rlhf --rlhf_type gkd --model m --teacher_model t --dataset d.jsonl --max_length 64 --gkd_logits_topk 64");
  EXPECT_EQ(ConfigOf(result).distillation().teacher(), "t");
  EXPECT_NE(AllOf(result.warnings()).find("gkd_logits_topk 64: the divergence"), std::string::npos);
}

}  // namespace
}  // namespace trireme
