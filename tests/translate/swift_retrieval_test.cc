// ms-swift's task_type: embedding models, rerankers and classifiers, with their settings in the environment.
#include <gtest/gtest.h>

#include "tests/translate/translated.h"

namespace trireme {
namespace {

Translation OfTask(const std::string& words, const std::string& environment = "") {
  return TranslatedFile(
      "run.sh",
      environment + " swift sft --model Qwen/Qwen3-Embedding-0.6B --dataset d.jsonl --max_length 64 " + words);
}

TEST(TranslateSwiftRetrieval, AnEmbeddingModel) {
  const Config config =
      ConfigOf(OfTask("--task_type embedding --loss_type infonce",
                      "INFONCE_MASK_FAKE_NEGATIVE=true INFONCE_HARD_NEGATIVES=3 INFONCE_USE_BATCH=False"));
  EXPECT_EQ(config.stage(), STAGE_EMBEDDING);
  EXPECT_EQ(config.retrieval().loss(), EMBEDDING_LOSS_INFONCE);
  EXPECT_DOUBLE_EQ(config.retrieval().temperature(), 0.1);
  EXPECT_TRUE(config.retrieval().mask_false_negatives());
  EXPECT_EQ(config.retrieval().hard_negatives(), 3);
  EXPECT_FALSE(config.retrieval().in_batch());
  EXPECT_EQ(ConfigOf(OfTask("--task_type embedding --loss_type cosine_similarity")).retrieval().loss(),
            EMBEDDING_LOSS_COSINE);
}

TEST(TranslateSwiftRetrieval, ANegativeIsOneOfTheWholeBatch) {
  EXPECT_NE(AllOf(OfTask("--task_type embedding --loss_type infonce").warnings()).find("whole global batch"),
            std::string::npos);
}

TEST(TranslateSwiftRetrieval, AReranker) {
  const Config scores =
      ConfigOf(OfTask("--task_type reranker --loss_type listwise_reranker", "LISTWISE_RERANKER_TEMPERATURE=2"));
  EXPECT_EQ(scores.stage(), STAGE_RERANKER);
  EXPECT_EQ(scores.retrieval().ranking(), RANKING_LOSS_LISTWISE);
  EXPECT_DOUBLE_EQ(scores.retrieval().temperature(), 2);
  EXPECT_EQ(scores.retrieval().hard_negatives(), 7);
  const Config words = ConfigOf(OfTask("--task_type generative_reranker --loss_type pointwise_reranker",
                                       "GENERATIVE_RERANKER_POSITIVE_TOKEN=true"));
  EXPECT_TRUE(words.retrieval().generative());
  EXPECT_EQ(words.retrieval().positive_token(), "true");
  EXPECT_EQ(words.retrieval().ranking(), RANKING_LOSS_POINTWISE);
}

TEST(TranslateSwiftRetrieval, AClassifier) {
  const Config several =
      ConfigOf(OfTask("--task_type seq_cls --num_labels 20 --problem_type multi_label_classification"));
  EXPECT_EQ(several.stage(), STAGE_CLASSIFICATION);
  EXPECT_EQ(several.retrieval().labels(), 20);
  EXPECT_EQ(several.retrieval().problem(), PROBLEM_MULTI_LABEL);
  EXPECT_EQ(ConfigOf(OfTask("--task_type seq_cls --num_labels 1")).retrieval().problem(), PROBLEM_REGRESSION);
  EXPECT_EQ(ConfigOf(OfTask("--task_type seq_cls --num_labels 2")).retrieval().problem(), PROBLEM_SINGLE_LABEL);
}

TEST(TranslateSwiftRetrieval, TextsHaveNoTemplate) {
  const std::string words = "--task_type seq_cls --num_labels 2 --use_chat_template ";
  EXPECT_EQ(ConfigOf(OfTask(words + "false")).stage(), STAGE_CLASSIFICATION);
  EXPECT_NE(AllOf(OfTask(words + "true").warnings()).find("a user's message"), std::string::npos);
  EXPECT_NE(AllOf(OfTask("--use_chat_template false").refused()).find("without a chat template"), std::string::npos);
}

TEST(TranslateSwiftRetrieval, WhatIsRefused) {
  const auto refused = [](const std::string& words) { return AllOf(OfTask(words).refused()); };
  EXPECT_NE(refused("--task_type embedding").find("without a loss_type"), std::string::npos);
  EXPECT_NE(refused("--task_type embedding --loss_type infonce --model Qwen/Qwen3-VL-Embedding-8B").find("images"),
            std::string::npos);
  EXPECT_NE(refused("--task_type seq_cls --num_labels 2 --loss_type infonce").find("retrieval.problem"),
            std::string::npos);
  EXPECT_NE(refused("--task_type prm").find("task_type"), std::string::npos);
}

}  // namespace
}  // namespace trireme
