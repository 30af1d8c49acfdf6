// Completions as rows: shared prompts, packing, what is trained; and their file, written and read again.
#include "train/rollouts/rollout_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "train/rollouts/rollout_file.h"

namespace trireme {
namespace {

using Ids = std::vector<int64_t>;

Rollout Completion(int64_t group, Ids prompt, Ids completion, bool truncated = false) {
  return {
      .group = group, .prompt_ids = std::move(prompt), .completion_ids = std::move(completion), .truncated = truncated};
}

const std::vector<Rollout>& Three() {
  static const std::vector<Rollout> all = {Completion(0, {1, 2, 3}, {4, 5}), Completion(0, {1, 2, 3}, {6}, true),
                                           Completion(1, {1, 2, 3}, {7})};
  return all;
}

TEST(RolloutRowsTest, ShareThePromptOfAGroup) {
  const Rows rows = RowsOf(Three(), {.longest = 64});
  ASSERT_EQ(rows->size(), 2);
  const Row first = rows->Read(0);
  EXPECT_EQ(first.input_ids, (Ids{1, 2, 3, 4, 5, 3, 6}));  // the prompt's last token predicts each first one
  EXPECT_EQ(first.labels, (Ids{-100, -100, -100, 4, 5, -100, 6}));
  EXPECT_EQ(first.starts, (Ids{0, 5}));
  EXPECT_EQ(first.shared, (Ids{0, 2}));
  EXPECT_EQ(first.values, (std::vector<float>{0, 1}));
  EXPECT_EQ(first.answer_tokens, (Ids{2, 1}));
  EXPECT_EQ(rows->Read(1).values, std::vector<float>{2});  // the same prompt in another group is not shared
}

TEST(RolloutRowsTest, EndARowWhereNoMoreFits) {
  EXPECT_EQ(RowsOf(Three(), {.longest = 6})->size(), 3);
  EXPECT_EQ(RowsOf(Three(), {.longest = 7})->size(), 2) << "the shared prompt is there once";
  EXPECT_THROW(RowsOf(Three(), {.longest = 4}), Error);
}

TEST(RolloutRowsTest, TrainNothingOfMaskedOnes) {
  const Rows rows = RowsOf(Three(), {.longest = 64, .share_prompt = false, .mask_truncated = true});
  ASSERT_EQ(rows->size(), 3);
  EXPECT_EQ(rows->Trained(0), 2);
  EXPECT_EQ(rows->Trained(1), 0);
  EXPECT_EQ(rows->Read(1).answer_tokens, Ids{0});
}

TEST(RolloutRowsTest, TrainNothingThatAnEnvironmentWrote) {
  Rollout one = Completion(0, {1, 2}, {3, 4, 5, 6});
  one.written = {true, false, false, true};
  const Row row = RowsOf(std::vector<Rollout>{one}, {.longest = 64})->Read(0);
  EXPECT_EQ(row.input_ids, (Ids{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(row.labels, (Ids{-100, -100, 3, -100, -100, 6}));
  EXPECT_EQ(row.answer_tokens, Ids{2});
}

TEST(RolloutRowsTest, ArePacked) {
  const Rows rows = RowsOf(Three(), {.longest = 64, .pack = true});
  ASSERT_EQ(rows->size(), 1);
  EXPECT_EQ(rows->Read(0).shared, (Ids{0, 2, 0}));
  EXPECT_EQ(rows->Read(0).values, (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(rows->Read(0).sampled.size(), rows->Read(0).labels.size());
}

TEST(RolloutFileTest, RefusesWhatWouldBeLostOrOverflow) {
  const auto refusal = [](const std::string& more) -> std::string {
    try {
      ParseRollouts(R"({"prompt_ids": [1], "completion_ids": [2], )" + more + "}", "a.jsonl", {.vocabulary = 10});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      return error.what();
    }
    return "accepted";
  };
  EXPECT_NE(
      refusal(R"("env_masks": [1])").find("a.jsonl:1: has the key env_masks, which would be lost; nearest: env_mask"),
      std::string::npos);
  EXPECT_NE(
      refusal(R"("rewards": {"mine": 1e308})").find("reward mine is 1e+308; wanted a number of at most 1e15 in size"),
      std::string::npos);
  EXPECT_NE(refusal(R"("truncated": 1)").find("truncated is 1; wanted true or false"), std::string::npos);
  EXPECT_EQ(refusal(R"("rewards": {"mine": 2.5}, "_source": "web")"), "accepted");
}

TEST(RolloutFileTest, OnePromptInTwoStepsIsTwoGroups) {
  const std::string tokens = R"({"prompt_ids": [1], "completion_ids": [2], "step": )";
  const std::vector<Rollout> found =
      ParseRollouts(tokens + "1}\n" + tokens + "1}\n" + tokens + "2}\n", "a.jsonl", {.vocabulary = 10});
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].group, found[1].group);
  EXPECT_NE(found[1].group, found[2].group);
}

TEST(RolloutFileTest, IsReadAgain) {
  Rollout one = Completion(2, {1, 2}, {3, 4}, true);
  one.step = 5;
  one.log_probs = {-0.5F, std::nanf("")};
  one.rewards = {{"a", 1.5}, {"b", std::nan("")}};
  one.advantage = -0.25;
  one.written = {false, true};
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("rollouts-" + std::to_string(getpid()) + ".jsonl");
  std::ofstream(path) << ToJsonLine(one) << "\n";
  const std::vector<Rollout> found = ReadRollouts(path, {.vocabulary = 10});
  std::ofstream(path) << R"({"prompt_ids": [1], "completion_ids": [2], "logprobs": [0.5]})" << "\n";
  EXPECT_THROW(ReadRollouts(path, {.vocabulary = 10}), Error);
  std::ofstream(path) << R"({"prompt_ids": [1], "completion_ids": [2], "env_mask": [1, 0]})" << "\n";
  EXPECT_THROW(ReadRollouts(path, {.vocabulary = 10}), Error);
  std::ofstream(path) << R"({"prompt_ids": [1], "completion_ids": [2], "env_mask": [0.5]})" << "\n";
  EXPECT_THROW(ReadRollouts(path, {.vocabulary = 10}), Error);
  std::ofstream(path) << R"({"prompt_ids": [1], "completion_ids": [12]})" << "\n";
  EXPECT_THROW(ReadRollouts(path, {.vocabulary = 10}), Error);
  std::filesystem::remove(path);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].step, 5);
  EXPECT_EQ(found[0].group, 2);
  EXPECT_EQ(found[0].prompt_ids, one.prompt_ids);
  EXPECT_EQ(found[0].completion_ids, one.completion_ids);
  EXPECT_EQ(found[0].log_probs[0], -0.5F);
  EXPECT_TRUE(std::isnan(found[0].log_probs[1]));
  EXPECT_EQ(found[0].rewards.at("a"), 1.5);
  EXPECT_TRUE(std::isnan(found[0].rewards.at("b")));
  EXPECT_EQ(found[0].advantage, -0.25);
  EXPECT_EQ(found[0].written, one.written);
  EXPECT_TRUE(found[0].truncated);
}

}  // namespace
}  // namespace trireme
