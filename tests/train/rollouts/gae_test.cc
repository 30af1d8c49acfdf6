// Rewards, advantages and returns of tokens by hand: where the score goes, both estimates of the KL, gamma and lambda,
// whitening, and how the KL's weight is steered.
#include "train/rollouts/gae.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trireme {
namespace {

void ExpectRows(const TokenNumbers& found, const std::vector<std::vector<double>>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].size(), wanted[i].size()) << i;
    for (size_t t = 0; t < found[i].size(); ++t) EXPECT_NEAR(found[i][t], wanted[i][t], 1e-6) << i << ", " << t;
  }
}

// A completion of one token, which is shorter than the other of two. Values are those of two and three states.
PpoFacts Facts() {
  return {.scores = {1, 2}, .old = {{-1}, {-2, -3}}, .reference = {{-1.5}, {-2, -2}}, .values = {{.5, .25}, {1, 0, 7}}};
}

RlConfig Plain() {
  RlConfig rl;
  rl.set_gamma(1);
  rl.set_lam(1);
  return rl;
}

TEST(GaeTest, TheScoreIsAfterTheLastTokenExceptInTheLongest) {
  const PpoTargets targets = TargetsOf(Facts(), Plain(), 0.1);
  // KL: 0.5; 0, -1.
  ExpectRows(targets.rewards, {{-.05, 1}, {0, 2.1}});
  EXPECT_NEAR(targets.kl, -.25, 1e-6);
  EXPECT_NEAR(targets.entropy, 3, 1e-6);
  // With gamma and lambda 1 a return is the sum of the rewards from there on.
  ExpectRows(targets.returns, {{.95, 1}, {2.1, 2.1}});
}

TEST(GaeTest, WithoutAValueAfterTheLastTokenTheScoreIsThatTokens) {
  PpoFacts facts = Facts();
  for (std::vector<float>& row : facts.values) row.pop_back();
  const PpoTargets targets = TargetsOf(facts, Plain(), 0.1);
  ExpectRows(targets.rewards, {{.95}, {0, 2.1}});
  ExpectRows(targets.returns, {{.95}, {2.1, 2.1}});
}

TEST(GaeTest, TheOtherEstimateOfTheKlIsNeverNegative) {
  RlConfig rl = Plain();
  rl.set_kl_estimator(KL_K3);
  const PpoTargets targets = TargetsOf(Facts(), rl, 1);
  ExpectRows(targets.rewards, {{-(std::exp(-.5) - .5), 1}, {0, 2 - (std::exp(1.0) - 2)}});
}

TEST(GaeTest, GammaAndLambdaDiscount) {
  RlConfig rl;
  rl.set_gamma(.5);
  rl.set_lam(.4);
  PpoFacts facts = Facts();
  facts.reference.clear();
  const PpoTargets targets = TargetsOf(facts, rl, 1);
  ExpectRows(targets.rewards, {{0, 1}, {0, 2}});
  // First: δ1 = 1 - .25 = .75, δ0 = .5·.25 - .5 = -.375, A0 = -.375 + .2·.75 = -.225.
  // Second: δ1 = 2 - 0 = 2 (the value after the last token does not count), δ0 = 0 - 1 = -1, A0 = -1 + .2·2 = -.6.
  ExpectRows(targets.returns, {{.275, 1}, {.4, 2}});
}

TEST(GaeTest, AdvantagesAreWhitenedOverTokens) {
  RlConfig rl;
  rl.set_gamma(.5);
  rl.set_lam(.4);
  PpoFacts facts = Facts();
  facts.reference.clear();
  // -.225; -.6, 2 and no more: the state after the last token is no token.
  const double mean = 1.175 / 3;
  const double variance = (std::pow(-.225 - mean, 2) + std::pow(-.6 - mean, 2) + std::pow(2 - mean, 2)) / 2;
  const double scale = 1 / std::sqrt(variance + 1e-8);
  ExpectRows(TargetsOf(facts, rl, 1).advantages,
             {{(-.225 - mean) * scale}, {(-.6 - mean) * scale, (2 - mean) * scale}});
}

TEST(GaeTest, WhitenedRewardsKeepTheirMean) {
  RlConfig rl = Plain();
  rl.set_whiten_rewards(true);
  PpoFacts facts = Facts();
  facts.reference.clear();
  // 0, 1; 0, 2: mean .75, squares .5625 + .0625 + .5625 + 1.5625 = 2.75.
  const double scale = 1 / std::sqrt(2.75 / 3 + 1e-8);
  ExpectRows(TargetsOf(facts, rl, 1).rewards,
             {{-.75 * scale + .75, .25 * scale + .75}, {-.75 * scale + .75, 1.25 * scale + .75}});
}

TEST(GaeTest, AConstantAddedToAllValuesOfALosslessEstimateChangesNoAdvantage) {
  PpoFacts facts = Facts();
  const TokenNumbers before = TargetsOf(facts, Plain(), 0.1).advantages;
  for (std::vector<float>& row : facts.values) {
    for (float& value : row) value += 3;
  }
  const TokenNumbers after = TargetsOf(facts, Plain(), 0.1).advantages;
  for (size_t i = 0; i < before.size(); ++i) {
    for (size_t t = 0; t < before[i].size(); ++t) EXPECT_NEAR(before[i][t], after[i][t], 1e-5);
  }
}

TEST(KlCoefficientTest, MovesTowardsTheTarget) {
  RlConfig rl;
  EXPECT_EQ(NextKlCoefficient(.2, 100, 8, rl), .2);
  rl.set_kl_target(6);
  EXPECT_NEAR(NextKlCoefficient(.2, 100, 8, rl), .2 * (1 + .2 * 8 / 10000), 1e-12);
  EXPECT_NEAR(NextKlCoefficient(.2, 0, 8, rl), .2 * (1 - .2 * 8 / 10000), 1e-12);
  rl.set_kl_horizon(8);
  EXPECT_NEAR(NextKlCoefficient(.2, 6.6, 8, rl), .2 * 1.1, 1e-12);
}

}  // namespace
}  // namespace trireme
