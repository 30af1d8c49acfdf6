// Losses of remote training against numbers worked out by hand, and weights against finite differences of the value.
#include "train/remote/work_losses.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trireme {
namespace {

LossInputs PolicyInputs() {
  return {.logprobs = {-1.0F, -2.0F, -0.5F, -3.0F},
          .advantages = {1.0F, -2.0F, 0.5F, 0.0F},
          .sequence_ratio_mask = {1, 1, 0, 1}};
}
const std::vector<double> kP = {-0.9, -2.5, -1.5, -2.0};  // ratios: 1.105, 0.607, 0.368, 2.718

// With the ratio of gspo held where the formula stops the gradient, a difference quotient is the weight.
double Slope(const LossKind& kind, const LossNumbers& numbers, const LossInputs& inputs, size_t at) {
  constexpr double kStep = 1e-6;
  std::vector<double> up = kP, down = kP;
  up[at] += kStep;
  down[at] -= kStep;
  return (EvaluateLoss(kind, numbers, inputs, up).loss - EvaluateLoss(kind, numbers, inputs, down).loss) / (2 * kStep);
}

TEST(RemoteLosses, CrossEntropyTakesAnyWeights) {
  const LossValue value = EvaluateLoss(*FindLoss("cross_entropy"), {}, {.weights = {1.0F, -0.5F, 0.0F, 2.0F}}, kP);
  EXPECT_NEAR(value.loss, 0.9 - 1.25 + 0 + 4, 1e-9);
  EXPECT_EQ(value.weights, (std::vector<float>{1.0F, -0.5F, 0.0F, 2.0F}));
}

TEST(RemoteLosses, WeightsAreMinusTheGradient) {
  for (const char* name : {"importance_sampling", "ppo", "dro"}) {
    const LossKind& kind = *FindLoss(name);
    const LossNumbers numbers{.clip_low = kind.clip_low, .clip_high = kind.clip_high, .beta = 0.05};
    const LossValue value = EvaluateLoss(kind, numbers, PolicyInputs(), kP);
    for (size_t i = 0; i < kP.size(); ++i)
      EXPECT_NEAR(value.weights[i], -Slope(kind, numbers, PolicyInputs(), i), 1e-5) << name << i;
  }
}

TEST(RemoteLosses, PpoClipsOnlyWhereItLowersTheGain) {
  const LossInputs inputs{.logprobs = {0, 0, 0, 0}, .advantages = {1, 1, -1, -1}};
  const std::vector<double> p = {std::log(2.0), std::log(0.5), std::log(2.0), std::log(0.5)};
  const LossValue value = EvaluateLoss(*FindLoss("ppo"), {.clip_low = 0.8, .clip_high = 1.2}, inputs, p);
  EXPECT_NEAR(value.loss, -1.2 - 0.5 + 2 + 0.8, 1e-6);
  EXPECT_NEAR(value.weights[0], 0, 1e-6);    // beyond the upper bound with a gain
  EXPECT_NEAR(value.weights[1], 0.5, 1e-6);  // below the lower one: still pulled up
  EXPECT_NEAR(value.weights[2], -2, 1e-5);
  EXPECT_NEAR(value.weights[3], 0, 1e-6);
}

TEST(RemoteLosses, CispoStopsTheGradientOfItsRatio) {
  const LossValue value = EvaluateLoss(*FindLoss("cispo"), {.clip_low = 0, .clip_high = 2}, PolicyInputs(), kP);
  EXPECT_NEAR(value.weights[0], std::exp(0.1), 1e-5);
  EXPECT_NEAR(value.weights[1], -2 * std::exp(-0.5), 1e-5);
  EXPECT_NEAR(value.loss, std::exp(0.1) * 0.9 - 2 * std::exp(-0.5) * 2.5 + 0.5 * std::exp(-1.0) * 1.5, 1e-5);
}

TEST(RemoteLosses, GspoHasOneRatioOverItsMask) {
  const double s = std::exp((0.1 - 0.5 + 1.0) / 3);
  const LossValue free = EvaluateLoss(*FindLoss("gspo"), {.clip_low = 0.5, .clip_high = 2}, PolicyInputs(), kP);
  EXPECT_NEAR(free.loss, -s * (1 - 2 + 0.5), 1e-6);
  EXPECT_NEAR(free.weights[0], s, 1e-5);
  EXPECT_NEAR(free.weights[1], -2 * s, 1e-5);
  const LossValue held = EvaluateLoss(*FindLoss("gspo"), {.clip_low = 0.9, .clip_high = 1.1}, PolicyInputs(), kP);
  EXPECT_NEAR(held.loss, -(1.1 - 2 * s + 0.5 * 1.1), 1e-6);
  EXPECT_NEAR(held.weights[0], 0, 1e-6);
  EXPECT_NEAR(held.weights[1], -2 * s, 1e-5);
}

// Sampler's and model's probabilities far apart: what is clipped still counts nothing, what is not says so.
TEST(RemoteLosses, ARatioThatOverflowsCountsOnlyWhereItIsClipped) {
  const LossInputs inputs{.logprobs = {-1000, -1000}, .advantages = {1, -1}};
  const LossValue value = EvaluateLoss(*FindLoss("ppo"), {.clip_low = 0.8, .clip_high = 1.2}, inputs, {-0.1, -0.1});
  EXPECT_EQ(value.weights[0], 0);
  EXPECT_FALSE(std::isfinite(value.weights[1]));
  TrainWork work{.rows = {{.tokens = {1, 2}, .targets = {2, 3}, .inputs = inputs}},
                 .loss = "ppo",
                 .numbers = {.clip_low = 0.8, .clip_high = 1.2}};
  TrainOutcome outcome;
  EXPECT_EQ(WeighWork(work, {{-0.1, -0.1}}, 0, outcome), TokenTable({{0, 0}}));
  EXPECT_EQ(outcome.error, "row 0: a ratio of probabilities overflows; are its logprobs of this model?");
  EXPECT_TRUE(outcome.users_fault);
}

TEST(RemoteLosses, UnknownOnesAreNotThere) {
  EXPECT_EQ(FindLoss("stable_reinforce"), nullptr);
  EXPECT_EQ(LossNames().size(), 6U);
}

}  // namespace
}  // namespace trireme
