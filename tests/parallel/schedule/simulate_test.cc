// Simulated bubbles against the formulas of the literature. F, I, W: time of a forward, an input gradient, a
// weight gradient; a whole backward takes I + W.
#include "parallel/schedule/simulate.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "parallel/schedule/schedules.h"

namespace trireme {
namespace {

Timeline Of(const std::string& name, const PipelineShape& shape, const Durations& durations = {}) {
  return Simulate(MakeSchedule(name, shape, 0), durations);
}

// Idle time of the rank that idles the most.
double IdleOf(const Timeline& timeline) {
  double most = 0;
  for (const RankTimeline& rank : timeline.ranks) most = std::max(most, rank.bubble_fraction);
  return most * timeline.end;
}

const Durations kDifferent{.forward = 1, .backward_input = 1.2, .backward_weight = 0.8};

TEST(Theory, OneFOneB) {
  for (int ranks = 1; ranks <= 16; ++ranks) {
    for (int micro_batches : {1, 2, 7, 16, 64}) {
      for (const Durations& durations : {Durations{}, kDifferent}) {
        const double wanted = static_cast<double>(ranks - 1) / (micro_batches + ranks - 1);
        for (const RankTimeline& rank : Of("1f1b", {ranks, micro_batches, 1}, durations).ranks) {
          EXPECT_NEAR(rank.bubble_fraction, wanted, 1e-12) << ranks << " " << micro_batches;
        }
      }
    }
  }
}

TEST(Theory, Interleaved) {
  for (int ranks = 1; ranks <= 16; ++ranks) {
    for (int chunks : {2, 3, 4}) {
      for (int micro_batches : {ranks, ranks + 1, 2 * ranks, 3 * ranks + ranks / 2}) {  // also where it does not divide
        const double wanted = static_cast<double>(ranks - 1) / (chunks * micro_batches + ranks - 1);
        for (const RankTimeline& rank : Of("interleaved", {ranks, micro_batches, chunks}).ranks) {
          EXPECT_NEAR(rank.bubble_fraction, wanted, 1e-12) << ranks << " " << chunks << " " << micro_batches;
        }
      }
    }
  }
}

TEST(Theory, ZeroBubble) {
  for (int ranks = 2; ranks <= 16; ++ranks) {
    for (int micro_batches : {ranks, 2 * ranks, 2 * ranks + 3}) {
      const double idle = IdleOf(Of("zero_bubble", {ranks, micro_batches, 1}));
      EXPECT_NEAR(idle, ranks - 1, 1e-9) << ranks << " " << micro_batches;  // (ranks - 1)(F + I - W)
    }
    const double idle = IdleOf(Of("zero_bubble", {ranks, 2 * ranks, 1}, kDifferent));
    EXPECT_NEAR(idle, (ranks - 1) * (1 + 1.2 - 0.8), 1e-9) << ranks;
  }
}

TEST(Theory, ZeroBubbleBeatsOneFOneB) {
  for (int ranks = 2; ranks <= 16; ++ranks) {
    for (int micro_batches : {1, 2, 4, 8, 16, 64}) {
      for (const Durations& durations : {Durations{}, kDifferent, Durations{1, 1, 1, 0.1}}) {
        EXPECT_LT(Of("zero_bubble", {ranks, micro_batches, 1}, durations).end,
                  Of("1f1b", {ranks, micro_batches, 1}, durations).end)
            << ranks << " " << micro_batches;
      }
    }
  }
}

// DualPipeV's paper gives (ranks - 1)(F&B + B - 3W) if a forward and a backward run as one block, F&B = F + I
// + W and B = I + W. If they run one after the other, the forward is sent before the backward ends, and
// (ranks - 1)(F + I - W) remains.
TEST(Theory, DualPipeV) {
  for (int ranks = 2; ranks <= 16; ++ranks) {
    for (int micro_batches : {2 * ranks, 2 * ranks + 1, 4 * ranks}) {
      for (const Durations& d : {Durations{}, kDifferent}) {
        const double backward = d.backward_input + d.backward_weight;
        const double stated = (ranks - 1) * (d.forward + backward + backward - 3 * d.backward_weight);
        const double idle = IdleOf(Of("dualpipev", {ranks, micro_batches, 2}, d));
        EXPECT_LT(idle, stated) << ranks << " " << micro_batches;
        if (d.backward_input == 1) {
          EXPECT_NEAR(idle, ranks - 1, 1e-9) << ranks << " " << micro_batches;
        }
      }
    }
  }
}

// With few micro batches the V still beats 1F1B over the same ranks, whose actions are two chunks long.
TEST(Theory, DualPipeVWithFewMicroBatches) {
  for (int ranks = 2; ranks <= 16; ++ranks) {
    for (int micro_batches = 1; micro_batches < 2 * ranks; ++micro_batches) {
      EXPECT_LT(Of("dualpipev", {ranks, micro_batches, 2}).end, Of("1f1b", {ranks, micro_batches, 1}, {2, 2, 2, 0}).end)
          << ranks << " " << micro_batches;
    }
  }
}

TEST(Simulate, MessagesTakeTime) {
  const Timeline timeline = Of("1f1b", {2, 1, 1}, {.message = 0.5});
  EXPECT_DOUBLE_EQ(timeline.end, 1 + 0.5 + 1 + 2 + 0.5 + 2);
  ASSERT_EQ(timeline.ranks[1].messages.size(), 2u);
  EXPECT_DOUBLE_EQ(timeline.ranks[1].messages[0].start, 1);
  EXPECT_DOUBLE_EQ(timeline.ranks[1].messages[0].end, 1.5);
  EXPECT_DOUBLE_EQ(timeline.ranks[1].compute[0].start, 1.5);
}

// A message travels while both ranks compute: short ones cost a schedule with slack little.
TEST(Simulate, MessagesHideBehindCompute) {
  const double without = Of("zero_bubble", {4, 64, 1}).end;
  const double with = Of("zero_bubble", {4, 64, 1}, {.message = 0.1}).end;
  EXPECT_LT(with - without, 2.0);
  EXPECT_GT(with, without);
}

TEST(Simulate, OneRankNeverIdles) {
  for (const std::string& name : ScheduleNames()) {
    const Timeline timeline = Of(name, {1, 5, name == "interleaved" ? 3 : 1});
    EXPECT_NEAR(timeline.ranks[0].bubble_fraction, 0, 1e-12) << name;
    EXPECT_TRUE(timeline.ranks[0].messages.empty()) << name;
  }
}

TEST(Simulate, RefusesInvalidDurations) {
  EXPECT_THROW(Of("1f1b", {2, 2, 1}, {.forward = 0}), Error);
  EXPECT_THROW(Of("1f1b", {2, 2, 1}, {.message = -1}), Error);
}

}  // namespace
}  // namespace trireme
