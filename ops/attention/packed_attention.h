// Attention over rows that hold several documents, each attending only to itself, and over heads whose values
// differ in size from their keys: whole sequences of one rank. No autograd here, no communication:
// parallel/context has both. Sequences split over ranks are attention_tiles.h.
#pragma once

#include <vector>

#include "ops/attention/attention_tiles.h"
#include "ops/choose.h"

namespace trireme {

// A query that is in several tiles attends to the keys of all. The output is in any dtype, its memory in any
// order; tokens of no document get zero. The log-sum-exp is for the backward pass alone: its layout is the
// implementation's.
PartialAttention AttendPacked(const Heads& heads, double scale, const RowTiles& tiles);

// Gradients with the layout of the heads, in any dtype, their memory in any order.
Heads AttendPackedBackward(const Heads& heads, double scale, const RowTiles& tiles, const AttendedQueries& queries);

// The same for callers that read the log-sum-exp, as sinks do: it is laid out as in attention_tiles.h, its memory in
// any order.
PartialAttention AttendPackedWithSums(const Heads& heads, double scale, const RowTiles& tiles);
Heads AttendPackedWithSumsBackward(const Heads& heads, double scale, const RowTiles& tiles,
                                   const AttendedQueries& queries);

// What runs for packed documents; listed with attention_tiles.
std::vector<CaseReport> ReportPacked(const at::Tensor& like);

}  // namespace trireme
