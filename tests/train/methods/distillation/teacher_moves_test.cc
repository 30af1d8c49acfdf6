// Between any two layouts: each of the student's ranks with the head gets each of its rows, and each token id of its
// part of the head's weight, once, from a rank of the teacher that has it.
#include "train/methods/distillation/teacher_moves.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr int kWorld = 8, kMicroBatch = 2;
constexpr int64_t kRows = 21, kVocabulary = 101;

RunPlan PlanOf(int tensor, int pipeline, int context = 1, PlacementKind kind = PlacementKind::kStraight) {
  const Grids grids = MakeGrids(kWorld, {.tensor = tensor, .pipeline = pipeline, .context = context});
  return {.grids = grids,
          .groups = GroupPlan(grids, {}),
          .placement = PlaceStages(kind, pipeline, kind == PlacementKind::kV ? 2 : 1),
          .stages = {},
          .schedule = ""};
}

std::vector<RunPlan> Plans() {
  return {PlanOf(1, 1),
          PlanOf(2, 1),
          PlanOf(8, 1),
          PlanOf(1, 4),
          PlanOf(2, 2),
          PlanOf(4, 2),
          PlanOf(2, 2, 1, PlacementKind::kV)};
}

bool HasHead(const RunPlan& plan, int rank) {
  const std::vector<int> ranks = HeadRanks(plan, plan.grids.dense.Coordinate(rank, "dp"));
  return std::ranges::find(ranks, rank) != ranks.end();
}

bool HasRow(const RunPlan& plan, int rank, int64_t row) {
  return HasHead(plan, rank) &&
         plan.grids.dense.Coordinate(rank, "dp") == row / kMicroBatch % plan.grids.dense.Size("dp");
}

TEST(TeacherMoves, TheHeadIsWhereTheLastStageIs) {
  EXPECT_EQ(HeadRanks(PlanOf(2, 2), 1), (std::vector<int>{6, 7}));
  EXPECT_EQ(HeadRanks(PlanOf(2, 2, 1, PlacementKind::kV), 1), (std::vector<int>{2, 3}));
  EXPECT_EQ(HeadRanks(PlanOf(2, 1, 2), 1), (std::vector<int>{4, 5, 6, 7}));
}

TEST(TeacherMoves, EveryRankGetsItsRowsOnce) {
  std::vector<RunPlan> students = Plans();
  students.push_back(PlanOf(2, 1, 4));
  for (const RunPlan& teacher : Plans()) {
    for (const RunPlan& student : students) {
      std::set<std::pair<int, int64_t>> found;
      for (const TeacherMove& move : StateMoves(teacher, student, kRows, kMicroBatch)) {
        EXPECT_EQ(move.end, move.begin + 1);
        EXPECT_TRUE(HasRow(teacher, move.source, move.begin)) << move.source << " " << move.begin;
        EXPECT_TRUE(move.source == move.destination || !HasRow(teacher, move.destination, move.begin));
        EXPECT_TRUE(found.emplace(move.destination, move.begin).second);
      }
      for (int rank = 0; rank < kWorld; ++rank) {
        for (int64_t row = 0; row < kRows; ++row) EXPECT_EQ(found.contains({rank, row}), HasRow(student, rank, row));
      }
    }
  }
}

TEST(TeacherMoves, EveryRankGetsItsPartOfTheHeadOnce) {
  for (const RunPlan& teacher : Plans()) {
    for (const RunPlan& student : Plans()) {
      std::map<int, std::multiset<int64_t>> found;
      for (const TeacherMove& move : HeadMoves(teacher, student, kVocabulary)) {
        const HeadRows held = HeadRowsOf(teacher, move.source, kVocabulary);
        EXPECT_TRUE(HasHead(teacher, move.source) && held.begin <= move.begin && move.end <= held.end);
        for (int64_t id = move.begin; id < move.end; ++id) found[move.destination].insert(id);
      }
      for (int rank = 0; rank < kWorld; ++rank) {
        std::multiset<int64_t> wanted;
        const HeadRows rows = HeadRowsOf(student, rank, kVocabulary);
        for (int64_t id = rows.begin; HasHead(student, rank) && id < rows.end; ++id) wanted.insert(id);
        EXPECT_EQ(found[rank], wanted);
      }
    }
  }
}

}  // namespace
}  // namespace trireme
