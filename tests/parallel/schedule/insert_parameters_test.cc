// The pass that gathers, frees and reduces, at each zero level.
#include "parallel/schedule/insert_parameters.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "parallel/schedule/schedules.h"

namespace trireme {
namespace {

int Count(const std::vector<Step>& steps, ActionKind kind) {
  return static_cast<int>(
      std::count_if(steps.begin(), steps.end(), [&](const Step& step) { return step[0].kind == kind; }));
}

int MostGathered(const std::vector<Step>& steps) {
  int now = 0;
  int most = 0;
  for (const Step& step : steps) {
    if (step[0].kind == ActionKind::kGatherParameters) most = std::max(most, ++now);
    if (step[0].kind == ActionKind::kFreeParameters) --now;
  }
  return most;
}

TEST(InsertParameterActions, ReducesOncePerChunkBelowZero2) {
  for (int zero : {0, 1}) {
    const Schedule schedule = MakeSchedule("interleaved", {2, 6, 3}, zero);
    for (const auto& steps : schedule.ranks) {
      EXPECT_EQ(Count(steps, ActionKind::kReduceGradients), 3);
      EXPECT_EQ(Count(steps, ActionKind::kGatherParameters), 0);
    }
  }
}

TEST(InsertParameterActions, ReducesEachMicroBatchFromZero2) {
  for (int zero : {2, 3}) {
    const Schedule schedule = MakeSchedule("interleaved", {2, 6, 3}, zero);
    for (const auto& steps : schedule.ranks) EXPECT_EQ(Count(steps, ActionKind::kReduceGradients), 3 * 6);
  }
}

// Only messages come in between: other stages wait for them, while nobody here waits for the reduction.
TEST(InsertParameterActions, ReductionLetsMessagesPassAndNothingElse) {
  const Schedule schedule = MakeSchedule("zero_bubble", {4, 6, 1}, 2);
  for (const auto& steps : schedule.ranks) {
    for (size_t i = 0; i < steps.size(); ++i) {
      if (steps[i][0].kind != ActionKind::kReduceGradients) continue;
      EXPECT_TRUE(i + 1 == steps.size() || steps[i + 1][0].is_compute()) << StepText(steps[i + 1]);
      size_t before = i - 1;
      while (steps[before][0].is_message()) --before;
      EXPECT_TRUE(steps[before][0].makes_weight_gradient()) << StepText(steps[before]);
    }
  }
}

TEST(InsertParameterActions, HoldsTwoChunksAtMost) {
  for (int chunks : {3, 4}) {
    const Schedule schedule = MakeSchedule("interleaved", {4, 8, chunks}, 3);
    for (const auto& steps : schedule.ranks) {
      EXPECT_EQ(MostGathered(steps), 2);
      EXPECT_EQ(Count(steps, ActionKind::kGatherParameters), Count(steps, ActionKind::kFreeParameters));
    }
  }
}

TEST(InsertParameterActions, GathersARankWithOneChunkOnce) {
  const Schedule schedule = MakeSchedule("1f1b", {4, 8, 1}, 3);
  for (const auto& steps : schedule.ranks) EXPECT_EQ(Count(steps, ActionKind::kGatherParameters), 1);
}

// The next chunk is gathered before the last compute of the current chunk, so that the two can overlap.
TEST(InsertParameterActions, GathersAhead) {
  const Schedule schedule = MakeSchedule("interleaved", {1, 1, 3}, 3);
  EXPECT_EQ(schedule.ToText(),
            "rank 0: gather .0 gather .1 F0.0 free .0 gather .2 F0.1 F0.2 B0.2 reduce .2 free .2 gather .0 B0.1 "
            "reduce .1 free .1 B0.0 reduce .0 free .0\n");
}

}  // namespace
}  // namespace trireme
