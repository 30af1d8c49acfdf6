// What the completions of an evaluation are worth: mean@k, best@n, maj@k, pass@n by hand and by all subsets, by data
// source, without rewards.
#include "train/rollouts/completion_scores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/config/load.h"

namespace trireme {
namespace {

constexpr double kNotRewarded = std::numeric_limits<double>::quiet_NaN();

Config ConfigWith(std::vector<std::string> settings) {
  settings.insert(settings.begin(), {"stage=grpo", "rl.rewards=[accuracy]"});
  return ParseConfig("", "run.yaml", settings);
}

// Two completions of each prompt unless said otherwise, whose only reward, accuracy, is this.
MetricValues Scores(const std::vector<double>& rewards, const Config& config,
                    const std::vector<std::string>& texts = {}, const std::vector<std::string>& sources = {}) {
  const RewardTable table{
      .names = {"accuracy"}, .weights = {1}, .rewards = {rewards}, .group = config.eval().completions()};
  std::vector<Rollout> rollouts(rewards.size());
  for (size_t i = 0; i < rollouts.size(); ++i) {
    rollouts[i].completion = texts.empty() ? "" : texts[i];
    rollouts[i].completion_ids.resize(i + 1);
  }
  const size_t prompts = rewards.size() / static_cast<size_t>(table.group);
  return CompletionScores(
      {.table = table, .rollouts = rollouts, .sources = sources.empty() ? std::vector<std::string>(prompts) : sources},
      config);
}

// Over every subset of n values.
double BestByCounting(const std::vector<double>& values, int64_t n) {
  double sum = 0, count = 0;
  for (uint32_t subset = 0; subset < (1U << values.size()); ++subset) {
    if (std::popcount(subset) != n) continue;
    double best = -std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < values.size(); ++i) {
      if ((subset >> i & 1) != 0) best = std::max(best, values[i]);
    }
    sum += best;
    ++count;
  }
  return sum / count;
}

TEST(CompletionScoresTest, TheBestOfNIsTheMeanOverAllSubsets) {
  const std::vector<double> values = {0.5, -1, 2, 2, 0.25, 7, -3};
  for (int64_t n = 1; n <= std::ssize(values); ++n) {
    EXPECT_NEAR(MeanBestOf(values, n), BestByCounting(values, n), 1e-12) << n;
  }
}

TEST(CompletionScoresTest, PassAtNIsTheUnbiasedEstimate) {
  // Of 5 completions 2 are correct: 1 - C(3, n) / C(5, n).
  const std::vector<double> correct = {0, 1, 0, 0, 1};
  EXPECT_NEAR(MeanBestOf(correct, 1), 0.4, 1e-12);
  EXPECT_NEAR(MeanBestOf(correct, 2), 1 - 3.0 / 10, 1e-12);
  EXPECT_NEAR(MeanBestOf(correct, 3), 1 - 1.0 / 10, 1e-12);
  EXPECT_NEAR(MeanBestOf(correct, 4), 1, 1e-12);
}

TEST(CompletionScoresTest, SizesAreThePowersOfTwoAndK) {
  EXPECT_EQ(SubsetSizes(1), (std::vector<int64_t>{1}));
  EXPECT_EQ(SubsetSizes(4), (std::vector<int64_t>{1, 2, 4}));
  EXPECT_EQ(SubsetSizes(6), (std::vector<int64_t>{1, 2, 4, 6}));
}

TEST(CompletionScoresTest, OneCompletionHasAMeanAndPasses) {
  const MetricValues scores = Scores({1, 0, 1, 1}, ConfigWith({}));
  EXPECT_EQ(scores.at("mean@1"), 0.75);
  EXPECT_EQ(scores.at("pass@1"), 0.75);
  EXPECT_EQ(scores.at("reward"), 0.75);
  EXPECT_EQ(scores.at("rewards/accuracy/mean"), 0.75);
  EXPECT_EQ(scores.at("completions/mean_length"), 2.5);
  EXPECT_FALSE(scores.contains("best@1")) << "it is the mean";
  EXPECT_FALSE(scores.contains("maj@1"));
  EXPECT_FALSE(scores.contains("frac_reward_zero_std"));
}

TEST(CompletionScoresTest, SeveralCompletionsOfEachPrompt) {
  const Config config = ConfigWith({"eval.completions=2", "eval.temperature=1", "eval.correct_above=0.5"});
  const MetricValues scores = Scores({0.5, 1, 0.25, 0}, config);
  EXPECT_EQ(scores.at("mean@2"), 0.4375);
  EXPECT_EQ(scores.at("best@2"), 0.625);
  EXPECT_EQ(scores.at("pass@1"), 0.25) << "0.5 is not above the bound";
  EXPECT_EQ(scores.at("pass@2"), 0.5);
}

TEST(CompletionScoresTest, TheMajoritysFirstCompletionCounts) {
  const Config config = ConfigWith({"eval.completions=3", "eval.temperature=1"});
  EXPECT_EQ(Scores({1, 0.25, 0.5}, config, {"7", "\\boxed{8}", "<answer>8.0</answer>"}).at("maj@3"), 0.25);
  EXPECT_EQ(Scores({1, 0.25, 0.5}, config, {"7", "8", "9"}).at("maj@3"), 1) << "of equally frequent ones the first";
  EXPECT_FALSE(Scores({1, 1, 1}, ConfigWith({"rl.rewards=[length]", "eval.completions=3", "eval.temperature=1"}))
                   .contains("maj@3"));
}

TEST(CompletionScoresTest, CompletionsWithoutARewardCountNothing) {
  const Config config = ConfigWith({"eval.completions=2", "eval.temperature=1"});
  const MetricValues scores = Scores({1, kNotRewarded, 0, 0.5, kNotRewarded, kNotRewarded}, config);
  EXPECT_EQ(scores.at("mean@2"), (1 + 0.25) / 2);
  EXPECT_EQ(scores.at("best@2"), 0.5) << "of the only prompt with two";
  const MetricValues none = Scores({kNotRewarded, kNotRewarded}, config);
  EXPECT_FALSE(none.contains("mean@2"));
  EXPECT_FALSE(none.contains("reward"));
}

TEST(CompletionScoresTest, ByDataSource) {
  const MetricValues scores = Scores({1, 0, 0.5}, ConfigWith({}), {}, {"maths", "words/easy", "maths"});
  EXPECT_EQ(scores.at("source/maths/mean@1"), 0.75);
  EXPECT_EQ(scores.at("source/maths/completions/mean_length"), 2);
  EXPECT_EQ(scores.at("source/words/easy/mean@1"), 0);
  EXPECT_EQ(scores.at("source/words/easy/rewards/accuracy/mean"), 0);
  EXPECT_EQ(scores.at("mean@1"), 0.5);
}

TEST(CompletionScoresTest, AnotherRewardJudges) {
  const Config config =
      ConfigWith({"rl.rewards=[accuracy, format]", "rl.reward_weights=[1, 10]", "eval.reward=format"});
  const RewardTable table{.names = {"accuracy", "format"}, .weights = {1, 10}, .rewards = {{1, 1}, {0, 1}}, .group = 1};
  const std::vector<Rollout> rollouts(2);
  const MetricValues scores = CompletionScores({.table = table, .rollouts = rollouts, .sources = {"", ""}}, config);
  EXPECT_EQ(scores.at("mean@1"), 0.5);
  EXPECT_EQ(scores.at("reward"), 6) << "the weighted sum";
}

}  // namespace
}  // namespace trireme
