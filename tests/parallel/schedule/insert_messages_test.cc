// The pass that derives messages: what it inserts, and what it refuses.
#include "parallel/schedule/insert_messages.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/error.h"
#include "parallel/schedule/schedules.h"
#include "parallel/schedule/simulate.h"

namespace trireme {
namespace {

int CountMessages(const Schedule& schedule) {
  int count = 0;
  for (const auto& steps : schedule.ranks) {
    for (const Step& step : steps) count += step.front().is_message() ? static_cast<int>(step.size()) : 0;
  }
  return count;
}

std::vector<Action> ComputeOf(const std::vector<Step>& steps) {
  std::vector<Action> compute;
  for (const Step& step : steps) {
    if (step.front().is_compute()) compute.push_back(step.front());
  }
  return compute;
}

TEST(InsertMessages, KeepsTheComputeOrder) {
  for (const std::string& name : ScheduleNames()) {
    const ComputeOrder order = MakeComputeOrder(name, {4, 9, name == "interleaved" ? 2 : 1});
    const Schedule schedule = InsertMessages(name, order);
    for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(ComputeOf(schedule.ranks[rank]), order.ranks[rank]) << name;
  }
}

TEST(InsertMessages, EachBoundaryBetweenRanksIsCrossedTwicePerMicroBatch) {
  const int micro_batches = 6;
  const auto count = [&](const char* name, int ranks, int chunks) {
    return CountMessages(InsertMessages(name, MakeComputeOrder(name, {ranks, micro_batches, chunks})));
  };
  const int a_border = 2 * 2 * micro_batches;  // forward and backward, at both ends
  EXPECT_EQ(count("1f1b", 4, 1), 3 * a_border);
  EXPECT_EQ(count("interleaved", 4, 3), 11 * a_border);
  EXPECT_EQ(count("dualpipev", 4, 2), 6 * a_border);  // the turning point of the V stays on its rank
  EXPECT_EQ(count("interleaved", 1, 3), 0);
}

TEST(InsertMessages, ExchangesArePostedTogether) {
  const Schedule schedule = InsertMessages("1f1b", MakeComputeOrder("1f1b", {4, 12, 1}));
  const std::vector<Step>& steps = schedule.ranks[1];
  EXPECT_TRUE(std::any_of(steps.begin(), steps.end(), [](const Step& step) { return step.size() > 1; }));
}

// In-order messages cost next to nothing compared with links without a queue, even when times differ from the
// plan: that is what the slack within the window is for.
TEST(InsertMessages, QueueOfMessagesDoesNotStallCompute) {
  for (const Durations& durations : {Durations{1, 1.2, 0.8, 0}, Durations{1, 0.8, 1.2, 0}}) {
    const Schedule schedule = MakeSchedule("dualpipev", {8, 32, 2}, 0);
    const double work = 2 * 32 * (durations.forward + durations.backward_input + durations.backward_weight);
    EXPECT_LT(Simulate(schedule, durations).end, 1.07 * work);
  }
}

TEST(InsertMessages, RefusesAnOrderThatCannotRun) {
  ComputeOrder order = MakeComputeOrder("1f1b", {2, 2, 1});
  std::reverse(order.ranks[0].begin(), order.ranks[0].end());
  try {
    InsertMessages("reversed", order);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "compute order cannot be played: rank 0 waits at B1.0, number 0 of its 4 actions, whose input is "
                 "never computed");
  }
}

}  // namespace
}  // namespace trireme
