// LLaMA-Factory's YAML: Hugging Face's defaults, its own of adapters, and its names of data sets.
#include <gtest/gtest.h>

#include "tests/translate/translated.h"

namespace trireme {
namespace {

const char* const kLora =
    "model_name_or_path: org/model\nstage: sft\ndo_train: true\nfinetuning_type: lora\nlora_rank: 4\nlora_target: all\n"
    "dataset: identity,demo\ntemplate: qwen\ncutoff_len: 512\n";

TEST(TranslateLlamaFactory, DefaultsAreHuggingFaces) {
  const Config config = ConfigOf(TranslatedFile("lf.yaml", kLora));
  EXPECT_EQ(config.run().micro_batch(), 8);
  EXPECT_EQ(config.run().global_batch(), 8);
  EXPECT_DOUBLE_EQ(config.optimizer().lr(), 5e-5);
  EXPECT_EQ(config.optimizer().schedule(), LR_LINEAR);
  EXPECT_DOUBLE_EQ(config.optimizer().weight_decay(), 0);
  EXPECT_DOUBLE_EQ(config.optimizer().beta2(), 0.999);
  EXPECT_DOUBLE_EQ(config.run().epochs(), 3);
  EXPECT_EQ(config.save().every(), 500);
  EXPECT_EQ(config.data().max_length(), 512);
}

TEST(TranslateLlamaFactory, AlphaIsTwiceTheRankAndDropoutZero) {
  const Config config = ConfigOf(TranslatedFile("lf.yaml", kLora));
  EXPECT_EQ(config.tuning().rank(), 4);
  EXPECT_DOUBLE_EQ(config.tuning().alpha(), 8);
  EXPECT_DOUBLE_EQ(config.tuning().dropout(), 0);
  EXPECT_EQ(config.tuning().targets(0), "all-linear");
}

TEST(TranslateLlamaFactory, RowWiseFp8IsThatOfRows) {
  const std::string text = std::string(kLora) + "fp8: true\nfp8_enable_fsdp_float8_all_gather: true\nfp8_backend: ";
  EXPECT_EQ(ConfigOf(TranslatedFile("lf.yaml", text + "torchao\n")).model().fp8(), FP8_ROWS);
  EXPECT_NE(AllOf(TranslatedFile("lf.yaml", text + "te\n").refused()).find("row-wise"), std::string::npos);
  EXPECT_EQ(ConfigOf(TranslatedFile("lf.yaml", std::string(kLora) + "fp8: false\n")).model().fp8(), FP8_NONE);
}

TEST(TranslateLlamaFactory, DynamicFineTuningIsALoss) {
  const Config config = ConfigOf(TranslatedFile("lf.yaml", std::string(kLora) + "use_dft_loss: true\n"));
  EXPECT_EQ(config.loss().kind(), TOKEN_LOSS_DFT);
}

TEST(TranslateLlamaFactory, StepsAndRanks) {
  const std::string text = std::string(kLora) +
                           "per_device_train_batch_size: 1\ngradient_accumulation_steps: 8\nwarmup_ratio: "
                           "0.1\nmax_steps: 20\nsave_strategy: epoch\n";
  const Config config = ConfigOf(TranslatedFile("lf.yaml", text, 4));
  EXPECT_EQ(config.run().global_batch(), 32);
  EXPECT_DOUBLE_EQ(config.optimizer().warmup(), 0.1);
  EXPECT_EQ(config.run().steps(), 20);
  EXPECT_EQ(config.save().every(), 0);
  EXPECT_TRUE(config.save().every_epoch());
  EXPECT_EQ(ConfigOf(TranslatedFile("lf.yaml", std::string(kLora) + "warmup_steps: 7\nwarmup_ratio: 0.1\n"))
                .optimizer()
                .warmup(),
            0);
}

TEST(TranslateLlamaFactory, AScheduleIsTranslatedOrRefused) {
  const std::string cosine = std::string(kLora) + "lr_scheduler_type: cosine_with_min_lr\nlr_scheduler_kwargs: ";
  EXPECT_DOUBLE_EQ(ConfigOf(TranslatedFile("lf.yaml", cosine + "{min_lr: 1.0e-6}\n")).optimizer().min_lr(), 1e-6);
  EXPECT_NE(AllOf(TranslatedFile("lf.yaml", cosine + "{min_lr_rate: 0.1}\n").refused()).find("min_lr_rate"),
            std::string::npos);
}

TEST(TranslateLlamaFactory, DataSetsByTheirNames) {
  const Config config = ConfigOf(TranslatedFile("lf.yaml", std::string(kLora) + "max_samples: 1000\n"));
  EXPECT_EQ(config.data().dataset_info(), "data");
  ASSERT_EQ(config.data().train_size(), 2);
  EXPECT_EQ(config.data().train(0), "identity#1000");
  EXPECT_FALSE(config.data().packing());
}

TEST(TranslateLlamaFactory, DeepSpeedsFileIsRead) {
  const auto path = std::filesystem::path(testing::TempDir()) / "ds.json";
  std::ofstream(path)
      << R"({"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}})";
  const Config config = ConfigOf(TranslatedFile("lf.yaml", std::string(kLora) + "deepspeed: " + path.string() + "\n"));
  EXPECT_EQ(config.parallel().zero(), 2);
  EXPECT_TRUE(config.memory().offload_optimizer());
  std::filesystem::remove(path);
}

TEST(TranslateLlamaFactory, ThePreferenceLossMayBeAStage) {
  std::string text = kLora;
  text.replace(text.find("sft"), 3, "dpo");
  EXPECT_EQ(ConfigOf(TranslatedFile("lf.yaml", text + "pref_loss: simpo\npref_beta: 0.2\n")).stage(), STAGE_SIMPO);
  EXPECT_DOUBLE_EQ(
      ConfigOf(TranslatedFile("lf.yaml", text + "pref_loss: sigmoid\npref_beta: 0.2\n")).preference().beta(), 0.2);
}

TEST(TranslateLlamaFactory, PredictionsAreAnEvaluation) {
  const Config config = ConfigOf(TranslatedFile(
      "lf.yaml",
      "model_name_or_path: org/model\nstage: sft\ndo_predict: true\nfinetuning_type: lora\nadapter_name_or_path: a\n"
      "eval_dataset: identity\ntemplate: qwen\nper_device_eval_batch_size: 2\npredict_with_generate: true\n"));
  EXPECT_TRUE(config.eval().generate());
  EXPECT_EQ(config.eval().batch(), 2);
  EXPECT_EQ(config.eval().max_new_tokens(), 1024);
  EXPECT_DOUBLE_EQ(config.eval().temperature(), 0.95);
  EXPECT_DOUBLE_EQ(config.eval().top_p(), 0.7);
  EXPECT_EQ(config.eval().top_k(), 50);
  EXPECT_EQ(config.data().valid(0), "identity");
  EXPECT_EQ(config.data().train_size(), 0);
}

TEST(TranslateLlamaFactory, ExpertsOnTheHostAreThoseOfTheRanks) {
  const std::string text = std::string(kLora) + "use_kt: true\nkt_config:\n  kt_expert_weight_format: ";
  const Translation result = TranslatedFile("lf.yaml", text + "bf16\n");
  EXPECT_EQ(AllOf(result.refused()), "");
  EXPECT_NE(AllOf(result.warnings()).find("use_kt: true"), std::string::npos);
  EXPECT_NE(AllOf(TranslatedFile("lf.yaml", text + "int8\n").refused()).find("kt_config"), std::string::npos);
}

TEST(TranslateLlamaFactory, PackedModelsThatAreReadAreTranslated) {
  const std::string rest = "stage: sft\nfinetuning_type: lora\ndataset: identity\ntemplate: llama3\n";
  for (const char* name : {"org/m-AWQ", "org/m-GPTQ-Int4"}) {
    const Translation result = TranslatedFile("lf.yaml", std::string("model_name_or_path: ") + name + "\n" + rest);
    EXPECT_EQ(AllOf(result.refused()), "") << name;
    EXPECT_NE(AllOf(result.warnings()).find("decoded"), std::string::npos) << name;
  }
  EXPECT_NE(AllOf(TranslatedFile("lf.yaml", "model_name_or_path: org/m-AQLM-2Bit\n" + rest).refused()).find("AQLM"),
            std::string::npos);
}

TEST(TranslateLlamaFactory, WhatIsMissingIsNamed) {
  const std::string refused = AllOf(
      TranslatedFile("lf.yaml", std::string(kLora) + "use_badam: true\nval_size: 100\nuse_galore: false\n").refused());
  EXPECT_NE(refused.find("use_badam: true"), std::string::npos) << refused;
  EXPECT_NE(refused.find("val_size: 100: a number of samples"), std::string::npos) << refused;
  EXPECT_EQ(refused.find("galore"), std::string::npos) << refused;
}

}  // namespace
}  // namespace trireme
