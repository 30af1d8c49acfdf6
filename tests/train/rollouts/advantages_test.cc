// Advantages by hand: means and deviations of groups, of batches, of what others got; missing rewards; identities.
#include "train/rollouts/advantages.h"

#include <gtest/gtest.h>

#include <cmath>

#include "train/rollouts/rollout_metrics.h"

namespace trireme {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

Config ConfigWith(ScaleRewards scale, Stage stage = STAGE_GRPO) {
  Config config;
  config.set_stage(stage);
  config.mutable_rl()->set_scale_rewards(scale);
  return config;
}

void ExpectNear(const std::vector<double>& found, const std::vector<double>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-12) << i;
}

TEST(AdvantagesTest, AreOverTheGroupsDeviation) {
  // Means 2 and 5, unbiased deviations √2 and 0.
  const double half = 1 / (std::sqrt(2.0) + 1e-4);
  ExpectNear(AdvantagesOf({1, 3, 5, 5}, 2, ConfigWith(SCALE_GROUP)), {-half, half, 0, 0});
}

TEST(AdvantagesTest, AreOverTheBatchsDeviation) {
  // All four: mean 3.5, squares 6.25 + 0.25 + 2.25 + 2.25 = 11.
  const double deviation = std::sqrt(11.0 / 3) + 1e-4;
  ExpectNear(AdvantagesOf({1, 3, 5, 5}, 2, ConfigWith(SCALE_BATCH)), {-1 / deviation, 1 / deviation, 0, 0});
}

TEST(AdvantagesTest, AreOverNothing) {
  ExpectNear(AdvantagesOf({1, 3, 5, 6}, 2, ConfigWith(SCALE_NONE)), {-1, 1, -.5, .5});
}

TEST(AdvantagesTest, LeaveCompletionsWithoutRewardOut) {
  ExpectNear(AdvantagesOf({1, kNone, 4, kNone, kNone, kNone}, 3, ConfigWith(SCALE_NONE)), {-1.5, 0, 1.5, 0, 0, 0});
}

TEST(AdvantagesTest, OfRlooAreMinusTheMeanOfTheOthers) {
  ExpectNear(AdvantagesOf({1, 2, 6}, 3, ConfigWith(SCALE_GROUP, STAGE_RLOO)), {1 - 4.0, 2 - 3.5, 6 - 1.5});
  ExpectNear(AdvantagesOf({1, kNone, 6}, 3, ConfigWith(SCALE_GROUP, STAGE_RLOO)), {-5, 0, 5});
}

TEST(AdvantagesTest, OfReinforcePlusPlusAreOverTheirOwnDeviation) {
  // Differences -1, 1, -2, 2: squares 10, deviation √(10/3).
  const double deviation = std::sqrt(10.0 / 3) + 1e-4;
  ExpectNear(AdvantagesOf({1, 3, 2, 6}, 2, ConfigWith(SCALE_NONE, STAGE_REINFORCE_PLUS_PLUS)),
             {-1 / deviation, 1 / deviation, -2 / deviation, 2 / deviation});
}

TEST(AdvantagesTest, DoNotChangeByAConstant) {
  const Config config = ConfigWith(SCALE_GROUP);
  ExpectNear(AdvantagesOf({1, 3, 5, 9}, 4, config), AdvantagesOf({11, 13, 15, 19}, 4, config));
}

TEST(StalenessTest, CountsTheUpdatesSinceAWeightWasSampledWith) {
  std::vector<Rollout> rollouts(3);
  rollouts[0].weights_step = 4;  // of the weights that step 5 begins with
  rollouts[1].weights_step = 2;
  rollouts[2].weights_step = -1;  // not known
  const MetricValues metrics = StalenessMetrics(rollouts, 5);
  EXPECT_EQ(metrics.at("sampling/staleness/mean"), 1);
  EXPECT_EQ(metrics.at("sampling/staleness/max"), 2);
  EXPECT_TRUE(StalenessMetrics(std::span(rollouts).last(1), 5).empty());
}

TEST(RewardTableTest, SumsWeightedRewardsThatAreThere) {
  const RewardTable table{
      .names = {"a", "b"}, .weights = {1, 0.5}, .rewards = {{1, 2, kNone}, {4, kNone, kNone}}, .group = 3};
  const std::vector<double> totals = TotalsOf(table);
  EXPECT_EQ(totals[0], 3);
  EXPECT_EQ(totals[1], 2);
  EXPECT_TRUE(std::isnan(totals[2]));
}

TEST(RewardTableTest, SaysWhyNothingIsLearnt) {
  RewardTable table{.names = {"a"}, .weights = {1}, .rewards = {{1, 1, 0, 0}}, .group = 2};
  EXPECT_NE(WhyNothingIsLearnt(table).find("same reward"), std::string::npos);
  EXPECT_EQ(RewardMetrics(table, ConfigWith(SCALE_GROUP)).at("frac_reward_zero_std"), 1);
  table.rewards = {{1, 0, 0, 0}};
  EXPECT_EQ(WhyNothingIsLearnt(table), "");
  EXPECT_EQ(RewardMetrics(table, ConfigWith(SCALE_GROUP)).at("frac_reward_zero_std"), 0.5);
  EXPECT_EQ(GroupsWithoutSpread(table), std::vector<int64_t>{1});
  table.rewards = {{kNone, kNone, kNone, kNone}};
  EXPECT_EQ(GroupsWithoutSpread(table), (std::vector<int64_t>{0, 1}));
  EXPECT_NE(WhyNothingIsLearnt(table).find("no reward of a"), std::string::npos);
}

}  // namespace
}  // namespace trireme
