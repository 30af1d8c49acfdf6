// TeacherMoves: what goes from the ranks of a teacher to those of its student where both have layouts of their own on
// the same ranks: of each row the hidden states, and once the weight of the teacher's head. Plain values, the same on
// every rank; moves nothing itself. No torch.
#pragma once

#include <cstdint>
#include <vector>

#include "session/run_plan.h"

namespace trireme {

struct TeacherMove {
  int source = 0, destination = 0;  // ranks; equal: it stays in this rank's memory
  int64_t begin = 0, end = 0;       // rows of the step, or token ids of the head's weight
};

// The ranks with the head among those that have the rows of a data-parallel rank, in order.
std::vector<int> HeadRanks(const RunPlan& plan, int data_rank);

// Which data-parallel rank has a row of the step.
int DataRankOf(const RunPlan& plan, int64_t row, int micro_batch);

// Each row's states go to every rank of the student with the head that has the row. In the order of rows, then of
// destinations.
std::vector<TeacherMove> StateMoves(const RunPlan& teacher, const RunPlan& student, int64_t rows, int micro_batch);

// Token ids whose weights a rank with the head has.
struct HeadRows {
  int64_t begin = 0, end = 0;
  int64_t padded = 0;  // with those of no token at the end
};
HeadRows HeadRowsOf(const RunPlan& plan, int rank, int64_t vocabulary);
// Every rank of the student with the head gets the rows of the teacher's weight that its own has. In the order of
// destinations, then of rows.
std::vector<TeacherMove> HeadMoves(const RunPlan& teacher, const RunPlan& student, int64_t vocabulary);

}  // namespace trireme
