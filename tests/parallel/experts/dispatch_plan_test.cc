// Where rows go, for every grid of experts up to 8 ranks, simulated by moving numbered rows by hand.
#include "parallel/experts/dispatch_plan.h"

#include <gtest/gtest.h>

#include <map>

namespace trireme {
namespace {

struct Row {
  int rank;
  int64_t choice, expert;
  auto operator<=>(const Row&) const = default;
};

// A rank's choices, any number of them; expert 0 gets none, and on the last rank all go to one expert.
std::vector<int64_t> Chosen(int rank, int ranks, int64_t experts) {
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < 5 + 3 * rank; ++i) {
    const int64_t expert = rank + 1 == ranks ? experts - 1 : 1 + (i * 5 + rank) % (experts - 1);
    chosen.push_back(i % 7 == 3 ? -1 : expert);
  }
  return chosen;
}

class Played {
 public:
  Played(int expert, int expert_tensor, int64_t experts) : layout_{experts, expert, expert_tensor} {
    std::vector<int64_t> counts;
    for (int rank = 0; rank < layout_.ranks(); ++rank) {
      const std::vector<int64_t> chosen = Chosen(rank, layout_.ranks(), experts);
      std::vector<int64_t> positions(chosen.size());
      const std::vector<int64_t> mine = PositionsByExpert(chosen, experts, positions);
      counts.insert(counts.end(), mine.begin(), mine.end());
      sent_.emplace_back(chosen.size(), Row{-1, -1, -1});
      for (size_t i = 0; i < chosen.size(); ++i) {
        if (chosen[i] >= 0) sent_[rank].at(positions[i]) = {rank, static_cast<int64_t>(i), chosen[i]};
      }
    }
    for (int rank = 0; rank < layout_.ranks(); ++rank) {
      ExpertLayout mine = layout_;
      mine.rank = rank;
      plans_.push_back(PlanExchange(counts, mine));
    }
  }

  // What arrives at a rank, in expert order.
  std::vector<Row> Arrived(int rank) const {
    const ExchangePlan& plan = plans_[rank];
    std::vector<Row> rows(plan.received_rows), grouped(plan.received_rows);
    for (int from = 0; from < layout_.ranks(); ++from) {
      EXPECT_EQ(plans_[from].sent.counts[rank], plan.received.counts[from]);
      for (uint64_t i = 0; i < plan.received.counts[from]; ++i) {
        rows[plan.received.offsets[from] + i] = sent_[from].at(plans_[from].sent.offsets[rank] + i);
      }
    }
    for (size_t i = 0; i < rows.size(); ++i) grouped.at(plan.regrouped[i]) = rows[i];
    return grouped;
  }

  const ExchangePlan& plan(int rank) const { return plans_[rank]; }
  const ExpertLayout& layout() const { return layout_; }
  const std::vector<Row>& sent(int rank) const { return sent_[rank]; }

 private:
  ExpertLayout layout_;
  std::vector<std::vector<Row>> sent_;
  std::vector<ExchangePlan> plans_;
};

void ExpectRightPositions(const Played& played) {
  std::map<Row, int> seen;
  for (int rank = 0; rank < played.layout().ranks(); ++rank) {
    const std::vector<Row> rows = played.Arrived(rank);
    const int64_t held = played.layout().held(), first = rank / played.layout().expert_tensor * held;
    int64_t begin = 0;
    for (int64_t expert = 0; expert < held; ++expert) {
      const int64_t end = played.plan(rank).ends.at(expert);
      for (int64_t i = begin; i < end; ++i) {
        EXPECT_EQ(rows.at(i).expert, first + expert);
        ++seen[rows.at(i)];
      }
      begin = end;
    }
    EXPECT_EQ(begin, static_cast<int64_t>(rows.size()));
    // What returns is at the position it was sent from, once per rank of the expert.
    for (int to = 0; to < played.layout().ranks(); ++to) {
      const Parts &returned = played.plan(rank).returned, &sent = played.plan(rank).sent;
      EXPECT_EQ(returned.counts[to], sent.counts[to]);
      EXPECT_EQ(returned.offsets[to], sent.offsets[to] + static_cast<uint64_t>(to % played.layout().expert_tensor *
                                                                               played.plan(rank).sent_rows));
    }
  }
  size_t all = 0;
  for (int rank = 0; rank < played.layout().ranks(); ++rank) all += played.plan(rank).sent_rows;
  EXPECT_EQ(seen.size(), all);
  for (const auto& [row, times] : seen) EXPECT_EQ(times, played.layout().expert_tensor);
}

TEST(DispatchPlan, EveryRowReachesAllRanksOfItsExpert) {
  for (int expert : {1, 2, 4, 8}) {
    for (int expert_tensor : {1, 2, 4}) {
      if (expert * expert_tensor > 8) continue;
      for (int64_t experts : {8, 16, 256}) {
        SCOPED_TRACE(Concat("ep ", expert, " etp ", expert_tensor, " experts ", experts));
        ExpectRightPositions(Played(expert, expert_tensor, experts));
      }
    }
  }
}

TEST(DispatchPlan, ExpertsWithFewRowsArePadded) {
  // Two ranks, two experts each; expert 2 gets nothing, expert 3 more than the minimum.
  const std::vector<int64_t> counts = {1, 0, 0, 3, 0, 2, 0, 2};
  const ExchangePlan plan = PlanExchange(counts, {.experts = 4, .expert = 2, .rank = 1}, /*least=*/4);
  EXPECT_EQ(plan.received_rows, 5);
  EXPECT_EQ(plan.held_rows, 9);
  EXPECT_EQ(plan.ends, (std::vector<int64_t>{4, 9}));
  EXPECT_EQ(plan.regrouped, (std::vector<int64_t>{4, 5, 6, 7, 8}));
}

TEST(DispatchPlan, EveryExpertIsPaddedFromWhereItBegins) {
  // The first expert has more rows than the minimum, the second fewer.
  const std::vector<int64_t> counts = {5, 1, 0, 0, 0, 0, 0, 0};
  const ExchangePlan plan = PlanExchange(counts, {.experts = 4, .expert = 2, .rank = 0}, /*least=*/4);
  EXPECT_EQ(plan.held_rows, 9);
  EXPECT_EQ(plan.ends, (std::vector<int64_t>{5, 9}));
  EXPECT_EQ(plan.regrouped, (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
}

TEST(DispatchPlan, RoomsAreSizesLikeOthers) {
  // Two ranks share the matrices of each half of the experts.
  const std::vector<int64_t> rooms = {1, 2, 3, 4, 5, 6, 7, 8};
  const ExchangePlan plan = PlanRooms(rooms, {.experts = 4, .expert = 2, .expert_tensor = 2, .rank = 2});
  EXPECT_EQ(plan.sent_rows, 5 + 6);
  EXPECT_EQ(plan.sent.counts, (std::vector<uint64_t>{5, 5, 6, 6}));
  EXPECT_EQ(plan.sent.offsets, (std::vector<uint64_t>{0, 0, 5, 5}));
  EXPECT_EQ(plan.returned.offsets, (std::vector<uint64_t>{0, 11, 5, 16}));
  EXPECT_EQ(plan.received.counts, (std::vector<uint64_t>{2, 4, 6, 8}));
  EXPECT_EQ(plan.received.offsets, (std::vector<uint64_t>{0, 2, 6, 12}));
  EXPECT_EQ(plan.received_rows, 20);
  EXPECT_EQ(plan.held_rows, 20);
}

TEST(DispatchPlan, ARoomIsLargerThanWhatWasSeen) {
  EXPECT_EQ(RoomFor(0), 32);
  EXPECT_EQ(RoomFor(800), 932);
}

TEST(DispatchPlan, BeyondTheCapacityTheSmallestWeightsAreDropped) {
  // Three tokens with two choices; all choose expert 0, two of them with the same weight.
  std::vector<int64_t> chosen = {0, 1, 0, 2, 1, 0};
  const std::vector<float> weights = {0.25f, 0.75f, 0.25f, 0.5f, 0.5f, 0.9f};
  const std::vector<int64_t> order = {7, 3, 5};  // the second token comes first
  KeepLargest(chosen, weights, order, 3, 2);
  EXPECT_EQ(chosen, (std::vector<int64_t>{-1, 1, 0, 2, 1, 0}));
  KeepLargest(chosen, weights, order, 3, 1);
  EXPECT_EQ(chosen, (std::vector<int64_t>{-1, 1, -1, 2, -1, 0}));
}

TEST(DispatchPlan, AnExpertOutOfRangeIsABug) {
  std::vector<int64_t> positions(1);
  EXPECT_DEATH(PositionsByExpert(std::vector<int64_t>{8}, 8, positions), "expert 8 of 8");
}

}  // namespace
}  // namespace trireme
