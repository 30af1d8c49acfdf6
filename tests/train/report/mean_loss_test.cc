// What a log line reports about steps without their own line.
#include "train/report/mean_loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace trireme {
namespace {

LoggedStep StepOf(double loss, std::vector<double> mtp_loss = {}) {
  LoggedStep step;
  step.loss = loss;
  step.mtp_loss = std::move(mtp_loss);
  return step;
}

TEST(MeanLoss, IsOfTheStepsSinceTheLastLine) {
  MeanLoss mean;
  mean.Add(StepOf(1, {4, 8}));
  LoggedStep line = StepOf(3, {6, 12});
  mean.Add(line);
  mean.Take(line);
  EXPECT_EQ(line.loss, 2);
  EXPECT_EQ(line.mtp_loss, (std::vector<double>{5, 10}));
  LoggedStep next = StepOf(7);
  mean.Add(next);
  mean.Take(next);
  EXPECT_EQ(next.loss, 7);
}

TEST(MeanLoss, OneStepKeepsItsBits) {
  MeanLoss mean;
  LoggedStep line = StepOf(0.1 + 0.2);
  mean.Add(line);
  mean.Take(line);
  EXPECT_EQ(line.loss, 0.1 + 0.2);
}

TEST(MeanLoss, SkipsNonFiniteLosses) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  MeanLoss mean;
  LoggedStep alone = StepOf(nan);
  mean.Add(alone);
  mean.Take(alone);
  EXPECT_TRUE(std::isnan(alone.loss));
  mean.Add(StepOf(5));
  LoggedStep line = StepOf(nan);
  mean.Add(line);
  mean.Take(line);
  EXPECT_EQ(line.loss, 5);
}

}  // namespace
}  // namespace trireme
