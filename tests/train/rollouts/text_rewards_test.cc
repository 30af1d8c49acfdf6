// Built-in rewards by their formulas, and which names and columns are refused.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "core/base/error.h"
#include "train/rollouts/rewards.h"

namespace trireme {
namespace {

double RewardOf(const std::string& name, const std::string& text, int64_t tokens = 10,
                const std::string& solution = "Friday") {
  Config config;
  config.mutable_rl()->set_max_new_tokens(100);
  PolicyPrompt prompt;
  prompt.record = {{"solution", solution}};
  Rollout rollout;
  rollout.completion = text;
  rollout.completion_ids.assign(static_cast<size_t>(tokens), 1);
  const Judged judged[] = {{&prompt, &rollout}};
  return OpenReward(name, config)->Of(judged).at(0);
}

TEST(TextRewardsTest, Accuracy) {
  EXPECT_EQ(RewardOf("accuracy", "friday."), 1);
  EXPECT_EQ(RewardOf("accuracy", "It is <answer>Friday</answer>"), 1);
  EXPECT_EQ(RewardOf("accuracy", "Sunday"), 0);
}

TEST(TextRewardsTest, Format) {
  EXPECT_EQ(RewardOf("format", "<think>a</think> \n<answer>b</answer>"), 1);
  EXPECT_EQ(RewardOf("format", "<think>a</think>b<answer>b</answer>"), 0);
  EXPECT_EQ(RewardOf("format", "<think>a</think><answer>b</answer>."), 0);
  EXPECT_EQ(RewardOf("format", " <think>a</think><answer>b</answer>"), 0);
}

TEST(TextRewardsTest, CosineFallsForRightAndRisesForWrongAnswers) {
  EXPECT_NEAR(RewardOf("cosine", "Friday", 100), 0.5, 1e-12);
  EXPECT_NEAR(RewardOf("cosine", "Friday", 50), 0.75, 1e-12);
  EXPECT_NEAR(RewardOf("cosine", "Sunday", 100), 0, 1e-12);
  EXPECT_NEAR(RewardOf("cosine", "Sunday", 25), -0.5 + 0.5 * (1 - std::cos(std::numbers::pi / 4)) / 2, 1e-12);
}

TEST(TextRewardsTest, RepetitionCountsTriples) {
  EXPECT_EQ(RewardOf("repetition", "a b c d"), 0);
  EXPECT_EQ(RewardOf("repetition", "a b"), 0);
  EXPECT_EQ(RewardOf("repetition", "a a A a"), -0.5);  // one triple, twice
}

TEST(TextRewardsTest, Lengths) {
  EXPECT_EQ(RewardOf("soft_overlong", "", 80), 0);
  EXPECT_EQ(RewardOf("soft_overlong", "", 90), -0.5);
  EXPECT_EQ(RewardOf("length", "", 25), -0.25);
}

TEST(TextRewardsTest, ThePenaltyOfLongCompletionsMayBeOverAnotherShare) {
  EXPECT_EQ(RewardOf("soft_overlong:50", "", 50), 0);
  EXPECT_EQ(RewardOf("soft_overlong:50", "", 75), -0.5);
  EXPECT_EQ(RewardOf("soft_overlong:50", "", 100), -1);
  EXPECT_EQ(RewardOf("soft_overlong:100", "", 10), -0.1);
  EXPECT_EQ(RewardOf("soft_overlong:200", "", 50), -0.5) << "over all of 100";
  EXPECT_EQ(LogNameOf("soft_overlong:50"), "soft_overlong");
  for (const char* name : {"soft_overlong:", "soft_overlong:0", "soft_overlong:-3", "soft_overlong:5x"}) {
    EXPECT_THROW(RewardOf(name, "", 5), Error) << name;
  }
}

TEST(TextRewardsTest, UnknownNamesAreRefused) {
  EXPECT_THROW(RewardOf("acuracy", ""), Error);
  EXPECT_THROW(RewardOf("program:", ""), Error);
  EXPECT_EQ(LogNameOf("program:./my/reward.py --fast"), "reward");
  EXPECT_EQ(LogNameOf("program:python3.11 ./my/reward.py a.b"), "reward");
  EXPECT_EQ(LogNameOf("program:/bin/judge"), "judge");
  EXPECT_EQ(LogNameOf("python:./my/reward.py:score"), "score");
}

}  // namespace
}  // namespace trireme
