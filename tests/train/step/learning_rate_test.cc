// Learning rates from the formula, and edge cases.
#include "train/step/learning_rate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/base/error.h"
#include "core/config/load.h"

namespace trireme {
namespace {

OptimizerConfig Optimizer(const std::string& yaml) {
  return ParseConfig("optimizer: {" + yaml + "}", "test").optimizer();
}

std::vector<double> Rates(const OptimizerConfig& config, int64_t total) {
  std::vector<double> rates;
  for (int64_t step = 1; step <= total; ++step) rates.push_back(LearningRate(config, step, total));
  return rates;
}

void ExpectRates(const OptimizerConfig& config, const std::vector<double>& wanted) {
  const std::vector<double> rates = Rates(config, static_cast<int64_t>(wanted.size()));
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(rates[i], wanted[i], 1e-12) << "step " << i + 1;
}

TEST(LearningRate, WarmsUpThenDecaysAsACosine) {
  // Two warm-up steps, then half a period over eight: cos of 0, 22.5, 45, … 157.5 degrees.
  const double half = std::sqrt(0.5);
  ExpectRates(Optimizer("lr: 2.0, min_lr: 1.0, warmup: 0.2, schedule: cosine"),
              {1.0, 2.0, 2.0, 1.5 + 0.5 * std::cos(M_PI / 8), 1.5 + 0.5 * half, 1.5 + 0.5 * std::sin(M_PI / 8), 1.5,
               1.5 - 0.5 * std::sin(M_PI / 8), 1.5 - 0.5 * half, 1.5 - 0.5 * std::cos(M_PI / 8)});
}

TEST(LearningRate, WarmsUpThenDecaysLinearly) {
  ExpectRates(Optimizer("lr: 1.0, min_lr: 0.2, warmup: 0.5, schedule: linear"),
              {0.25, 0.5, 0.75, 1.0, 1.0, 0.8, 0.6, 0.4});
}

TEST(LearningRate, WarmsUpThenStaysConstant) {
  ExpectRates(Optimizer("lr: 1.0, min_lr: 0.2, warmup: 0.5, schedule: constant"), {0.5, 1.0, 1.0, 1.0});
}

TEST(LearningRate, WithoutWarmUpStartsAtThePeak) {
  ExpectRates(Optimizer("lr: 1.0, min_lr: 0.0, schedule: linear"), {1.0, 0.75, 0.5, 0.25});
  ExpectRates(Optimizer("lr: 1.0, min_lr: 0.0, schedule: cosine"), {1.0, 0.5});
}

TEST(LearningRate, StaysThenDecaysInTheLastSteps) {
  ExpectRates(Optimizer("lr: 1.0, warmup_steps: 2, schedule: wsd, decay: 0.4, decay_shape: linear"),
              {0.5, 1, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25});
  ExpectRates(Optimizer("lr: 2.0, min_lr: 1.0, schedule: wsd, decay: 0.5, decay_shape: cosine"), {2, 2, 2, 1.5});
  ExpectRates(Optimizer("lr: 1.0, schedule: wsd, decay: 1, decay_shape: 1-sqrt"),
              {1, 0.5, 1 - std::sqrt(0.5), 1 - std::sqrt(0.75)});
  ExpectRates(Optimizer("lr: 1.0, schedule: wsd, decay: 0"), {1, 1, 1, 1});
  // A decay longer than what the warm-up leaves takes all of it.
  ExpectRates(Optimizer("lr: 1.0, warmup_steps: 2, schedule: wsd, decay: 1, decay_shape: linear"), {0.5, 1, 1, 0.5});
}

TEST(LearningRate, RestartsItsCosine) {
  ExpectRates(Optimizer("lr: 1.0, schedule: cosine_with_restarts, cycles: 2"),
              {1, (1 + std::sqrt(0.5)) / 2, 0.5, (1 - std::sqrt(0.5)) / 2, 1, (1 + std::sqrt(0.5)) / 2, 0.5,
               (1 - std::sqrt(0.5)) / 2});
}

TEST(LearningRate, FollowsAPowerOrAnInverseSquareRoot) {
  ExpectRates(Optimizer("lr: 1.0, schedule: polynomial, power: 2"), {1, 0.5625, 0.25, 0.0625});
  ExpectRates(Optimizer("lr: 1.0, min_lr: 0.5, warmup_steps: 1, schedule: inverse_sqrt"),
              {1, 1, std::sqrt(0.5), std::sqrt(1.0 / 3), 0.5, 0.5});
}

// The default: a run whose rate decays to 0 still learns in its last step.
TEST(LearningRate, LastStepIsNotWasted) {
  for (const char* schedule : {"cosine", "linear"}) {
    for (const int64_t steps : {1, 2, 3, 1000}) {
      EXPECT_GT(LearningRate(Optimizer(std::string("schedule: ") + schedule), steps, steps), 0) << steps;
    }
  }
}

TEST(LearningRate, LastStepReachesTheMinimumIfAsked) {
  ExpectRates(Optimizer("lr: 1.0, schedule: linear, reach_min_lr: true"), {1.0, 0.75, 0.5, 0.25, 0.0});
  ExpectRates(Optimizer("lr: 1.0, min_lr: 0.2, warmup: 0.5, schedule: linear, reach_min_lr: true"),
              {0.5, 1.0, 0.6, 0.2});
  ExpectRates(Optimizer("lr: 1.0, schedule: cosine, reach_min_lr: true"), {1.0, 0.5, 0.0});
  ExpectRates(Optimizer("lr: 1.0, schedule: cosine, reach_min_lr: true"), {1.0});
}

TEST(LearningRate, AllWarmUpEndsAtThePeak) {
  ExpectRates(Optimizer("lr: 1.0, warmup: 1, schedule: cosine"), {0.25, 0.5, 0.75, 1.0});
}

TEST(LearningRate, WarmUpStepsAreRounded) {
  ExpectRates(Optimizer("lr: 1.0, warmup: 0.16, schedule: constant"), {0.5, 1, 1, 1, 1, 1, 1, 1, 1, 1});  // 1.6
  ExpectRates(Optimizer("lr: 1.0, warmup: 0.14, schedule: constant"), {1, 1, 1, 1, 1, 1, 1, 1, 1, 1});    // 1.4
}

TEST(LearningRate, OneStepIsThePeak) {
  for (const char* schedule : {"cosine", "linear", "constant"}) {
    for (const char* warmup : {"0", "0.3", "1"}) {
      const std::string yaml = std::string("lr: 0.5, warmup: ") + warmup + ", schedule: " + schedule;
      EXPECT_EQ(LearningRate(Optimizer(yaml), 1, 1), 0.5) << yaml;
    }
  }
}

TEST(LearningRate, NeverLeavesItsBounds) {
  for (const char* schedule : {"cosine", "linear"}) {
    for (const char* warmup : {"0", "0.01", "0.5", "0.999"}) {
      const std::string yaml = std::string("lr: 3.0e-4, min_lr: 3.0e-5, warmup: ") + warmup + ", schedule: " + schedule;
      const std::vector<double> rates = Rates(Optimizer(yaml), 777);
      const size_t top = std::max_element(rates.begin(), rates.end()) - rates.begin();
      EXPECT_EQ(rates[top], 3e-4) << yaml;
      EXPECT_TRUE(std::is_sorted(rates.begin(), rates.begin() + top + 1)) << yaml;
      EXPECT_TRUE(std::is_sorted(rates.begin() + top, rates.end(), std::greater<>())) << yaml;
      EXPECT_GE(rates.back(), 3e-5) << yaml;
      EXPECT_NEAR(Rates(Optimizer(yaml + ", reach_min_lr: true"), 777).back(), 3e-5, 1e-18) << yaml;
    }
  }
}

// Adafactor's: 1e-2 up to step 10000, then 1 / sqrt(step).
TEST(LearningRate, RelativeStepFallsWithTheRootOfTheStep) {
  OptimizerConfig config;
  config.set_schedule(LR_RELATIVE_STEP);
  config.set_lr(1e-2);
  EXPECT_DOUBLE_EQ(LearningRate(config, 1, 100000), 1e-2);
  EXPECT_DOUBLE_EQ(LearningRate(config, 10000, 100000), 1e-2);
  EXPECT_DOUBLE_EQ(LearningRate(config, 40000, 100000), 5e-3);
  config.set_min_lr(6e-3);
  EXPECT_DOUBLE_EQ(LearningRate(config, 40000, 100000), 6e-3);
}

TEST(LearningRate, RefusesARateThatWouldRise) {
  CheckLearningRate(Optimizer("lr: 0.1, min_lr: 0.1"));
  try {
    CheckLearningRate(Optimizer("lr: 0.1, min_lr: 0.2"));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_EQ(std::string(error.what()),
              "optimizer.min_lr = 0.2 is above optimizer.lr = 0.1; the rate decays to min_lr: lower it");
  }
}

}  // namespace
}  // namespace trireme
