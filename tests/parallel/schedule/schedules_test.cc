// The list of schedules, what each refuses, and how many live activations each needs.
#include "parallel/schedule/schedules.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "parallel/schedule/simulate.h"

namespace trireme {
namespace {

std::string Refusal(const std::string& name, const PipelineShape& shape, int zero = 0) {
  try {
    MakeSchedule(name, shape, zero);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "accepted";
}

int MostLive(const std::string& name, const PipelineShape& shape) {
  int most = 0;
  for (const RankTimeline& rank : Simulate(MakeSchedule(name, shape, 0), {}).ranks) {
    most = std::max(most, rank.peak_live);
  }
  return most;
}

TEST(Schedules, KnownByName) {
  EXPECT_EQ(ScheduleNames(), (std::vector<std::string>{"1f1b", "interleaved", "zero_bubble", "dualpipev"}));
  EXPECT_EQ(Refusal("gpipe", {2, 2, 1}),
            "unknown schedule 'gpipe'; wanted one of 1f1b, interleaved, zero_bubble, dualpipev");
}

TEST(Schedules, RefuseVirtualStagesTheyDoNotHave) {
  EXPECT_EQ(Refusal("1f1b", {4, 8, 2}),
            "schedule 1f1b with virtual_stages = 2; it has one stage per rank: write virtual_stages: 1 or "
            "schedule: interleaved");
  EXPECT_EQ(Refusal("interleaved", {4, 8, 1}),
            "schedule interleaved with virtual_stages = 1; wanted at least 2, or write schedule: 1f1b");
  EXPECT_EQ(Refusal("zero_bubble", {4, 8, 2}),
            "schedule zero_bubble with virtual_stages = 2; it has one stage per rank: write virtual_stages: 1 or "
            "schedule: dualpipev");
  EXPECT_EQ(Refusal("dualpipev", {4, 8, 3}),
            "schedule dualpipev with virtual_stages = 3; it has two stages per rank: write virtual_stages: 2 "
            "or leave "
            "it out");
  EXPECT_EQ(Refusal("dualpipev", {4, 8, 1}), "accepted");
}

TEST(Schedules, RefuseSizesBelowOne) {
  EXPECT_EQ(Refusal("1f1b", {0, 8, 1}), "pipeline = 0; wanted at least 1");
  EXPECT_EQ(Refusal("1f1b", {4, 0, 1}), "0 micro batches; wanted at least 1");
  EXPECT_EQ(Refusal("1f1b", {4, 8, 1}, 4), "zero = 4; wanted 0, 1, 2 or 3");
}

TEST(Schedules, PrintAsText) {
  EXPECT_EQ(MakeSchedule("1f1b", {2, 2, 1}, 1).ToText(),
            "rank 0: F0.0 {send F0.0 to 1} F1.0 {send F1.0 to 1} {recv B0.0 from 1} B0.0 {recv B1.0 from 1} B1.0 "
            "reduce .0\n"
            "rank 1: {recv F0.0 from 0} F0.0 B0.0 {recv F1.0 from 0} {send B0.0 to 0} F1.0 B1.0 {send B1.0 to 0} "
            "reduce .0\n");
}

TEST(Schedules, PlaceStagesAsDocumented) {
  EXPECT_EQ(MakeSchedule("interleaved", {2, 4, 3}, 0).placement.StageAt(1, 2), 5);
  EXPECT_EQ(MakeSchedule("dualpipev", {4, 8, 2}, 0).placement.StageAt(0, 1), 7);
  EXPECT_EQ(MakeSchedule("dualpipev", {4, 3, 2}, 0).placement.StageAt(0, 1), 7);  // few micro batches: same V
}

TEST(LiveActivations, OneFOneBHoldsOnePerRemainingStage) {
  const Timeline timeline = Simulate(MakeSchedule("1f1b", {4, 9, 1}, 0), {});
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(timeline.ranks[rank].peak_live, 4 - rank);
}

TEST(LiveActivations, NeverMoreThanStated) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (int micro_batches = 1; micro_batches <= 30; ++micro_batches) {
      EXPECT_LE(MostLive("zero_bubble", {ranks, micro_batches, 1}), ranks);
      EXPECT_LE(MostLive("dualpipev", {ranks, micro_batches, 2}), 2 * ranks + 1) << ranks << " " << micro_batches;
    }
  }
}

}  // namespace
}  // namespace trireme
