#include "train/methods/distillation/teacher_moves.h"

#include <algorithm>

#include "core/base/rounding.h"

namespace trireme {
namespace {

// Of ranks with the same: the destination itself, or they take turns.
int SourceFor(int destination, const std::vector<int>& holders) {
  if (std::ranges::find(holders, destination) != holders.end()) return destination;
  return holders[static_cast<size_t>(destination) % holders.size()];
}

std::vector<int> AllHeadRanks(const RunPlan& plan) {
  std::vector<int> ranks;
  for (int data = 0; data < plan.grids.dense.Size("dp"); ++data) {
    const std::vector<int> some = HeadRanks(plan, data);
    ranks.insert(ranks.end(), some.begin(), some.end());
  }
  std::ranges::sort(ranks);
  return ranks;
}

}  // namespace

std::vector<int> HeadRanks(const RunPlan& plan, int data_rank) {
  const Mesh& dense = plan.grids.dense;
  const int position = plan.placement.SiteOf(plan.placement.stages() - 1).rank;
  std::vector<int> ranks;
  for (int rank = 0; rank < dense.world(); ++rank) {
    if (dense.Coordinate(rank, "pp") == position && dense.Coordinate(rank, "dp") == data_rank) ranks.push_back(rank);
  }
  return ranks;
}

int DataRankOf(const RunPlan& plan, int64_t row, int micro_batch) {
  return static_cast<int>(row / micro_batch % plan.grids.dense.Size("dp"));
}

std::vector<TeacherMove> StateMoves(const RunPlan& teacher, const RunPlan& student, int64_t rows, int micro_batch) {
  std::vector<TeacherMove> moves;
  for (int64_t row = 0; row < rows; ++row) {
    const std::vector<int> holders = HeadRanks(teacher, DataRankOf(teacher, row, micro_batch));
    for (const int destination : HeadRanks(student, DataRankOf(student, row, micro_batch))) {
      moves.push_back({SourceFor(destination, holders), destination, row, row + 1});
    }
  }
  return moves;
}

HeadRows HeadRowsOf(const RunPlan& plan, int rank, int64_t vocabulary) {
  const int tensor = plan.grids.dense.Size("tp");
  const int64_t each = DivideUp(vocabulary, tensor), begin = plan.grids.dense.Coordinate(rank, "tp") * each;
  return {std::min(begin, vocabulary), std::min(begin + each, vocabulary), each};
}

std::vector<TeacherMove> HeadMoves(const RunPlan& teacher, const RunPlan& student, int64_t vocabulary) {
  const std::vector<int> holders = AllHeadRanks(teacher);
  std::vector<TeacherMove> moves;
  for (const int destination : AllHeadRanks(student)) {
    const HeadRows wanted = HeadRowsOf(student, destination, vocabulary);
    for (int part = 0; part < teacher.grids.dense.Size("tp"); ++part) {
      std::vector<int> same;  // that hold this part
      std::ranges::copy_if(holders, std::back_inserter(same),
                           [&](int rank) { return teacher.grids.dense.Coordinate(rank, "tp") == part; });
      const HeadRows held = HeadRowsOf(teacher, same.front(), vocabulary);
      const int64_t begin = std::max(wanted.begin, held.begin), end = std::min(wanted.end, held.end);
      if (begin < end) moves.push_back({SourceFor(destination, same), destination, begin, end});
    }
  }
  return moves;
}

}  // namespace trireme
