// Goodput: the closed form against the same run as events, against Young and Daly, and against its own neighbours.
#include "cost/goodput.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "core/cli/duration.h"

namespace trireme {
namespace {

constexpr double kHour = 3600;

const FailingRun kRuns[] = {
    {.step = 6.5, .save = 2, .write = 60, .recover = 600, .between = 8 * kHour},  // a save is written beside training
    {.step = 6.5, .save = 60, .write = 0, .recover = 600, .between = 8 * kHour},  // a save stops training
    {.step = 6.5, .save = 2, .write = 600, .recover = 600, .between = kHour},     // saves wait for each other
    {.step = 1, .save = 0.001, .write = 20, .recover = 10, .between = 60},        // fails all the time
    {.step = 6.5, .save = 60, .write = 0, .recover = 600, .between = 100000 * kHour}  // hardly ever
};

TEST(Goodput, ClosedFormAndEventsAgree) {
  uint64_t seed = 1;
  for (const FailingRun& run : kRuns) {
    const int64_t best = BestSaveEvery(run);
    for (const int64_t save_every : {best / 4 + 1, best, 3 * best}) {
      const Goodput expected = ExpectedGoodput(run, save_every);
      const DrawnGoodput drawn = DrawGoodput(run, save_every, ++seed);
      EXPECT_NEAR(drawn.steps, expected.steps, 4 * drawn.error) << save_every << " steps of " << run.step << " s";
      EXPECT_LT(drawn.error, 0.01 * expected.steps);
      EXPECT_NEAR(expected.steps + expected.saves + expected.repeated + expected.recovery, 1, 1e-12);
    }
  }
  const FailingRun& run = kRuns[0];
  EXPECT_EQ(DrawGoodput(run, 50, 1).steps, DrawGoodput(run, 50, 1).steps);
  EXPECT_NE(DrawGoodput(run, 50, 1).steps, DrawGoodput(run, 50, 2).steps);
}

TEST(Goodput, TheBestIntervalIsDalysWhereSavesStopTraining) {
  const FailingRun run = {.step = 0.5, .save = 60, .write = 0, .recover = 600, .between = 8 * kHour};
  const double best = run.step * static_cast<double>(BestSaveEvery(run));
  EXPECT_NEAR(best, DalyInterval(run), 2e-3 * best);
  EXPECT_NEAR(best, YoungInterval(run), 0.03 * best);
  // Young's own approximation of the share that is lost: half an interval per failure, and the saves.
  const double lost = run.save / best + (best / 2 + run.save / 2) / run.between + run.recover / run.between;
  EXPECT_NEAR(1 - ExpectedGoodput(run, BestSaveEvery(run)).steps, lost, 0.08 * lost);
}

TEST(Goodput, NoOtherIntervalIsBetter) {
  for (const FailingRun& run : kRuns) {
    const int64_t best = BestSaveEvery(run);
    for (int64_t other = std::max<int64_t>(best - 300, 1); other < best + 300; ++other) {
      ASSERT_LE(ExpectedGoodput(run, other).steps, ExpectedGoodput(run, best).steps) << other << " instead of " << best;
    }
  }
}

TEST(Goodput, ARunThatGetsNowhereIsRefused) {
  try {
    BestSaveEvery({.step = 3600, .save = 1, .write = 0, .recover = 60, .between = 60});
    ADD_FAILURE() << "an hour's step passes between failures every minute";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_status(), 2);
    EXPECT_EQ(std::string(error.what()).rfind("a failure every 60 s leaves no time for a step of 3600 s", 0), 0U)
        << error.what();
  }
}

TEST(Goodput, DurationsHaveUnits) {
  EXPECT_DOUBLE_EQ(ParseDuration("--mtbf", "8h"), 8 * kHour);
  EXPECT_DOUBLE_EQ(ParseDuration("--mtbf", "2.5 d"), 60 * kHour);
  EXPECT_DOUBLE_EQ(ParseDuration("--mtbf", "250ms"), 0.25);
  for (const char* text : {"8", "", "h", "-8h", "0s", "8 hours", "8h 5m", "nan h", "inf d"}) {
    EXPECT_THROW(ParseDuration("--mtbf", text), Error) << text;
  }
  EXPECT_EQ(DurationText(5400), "1.5 h");
  EXPECT_EQ(DurationText(90), "1.5 min");
  EXPECT_EQ(DurationText(0.0125), "12.5 ms");
}

}  // namespace
}  // namespace trireme
