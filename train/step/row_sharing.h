// Which data-parallel rank trains which rows of a step, so that all of them have about the same to do. The rows of a
// step stay the same, and so do its loss and gradient; only their order changes, from which batches.h shares them out.
// No torch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/rows.h"
#include "parallel/graph/graph.h"

namespace trireme {

struct RowShares {
  int data_size = 1;    // data-parallel ranks
  int micro_batch = 1;  // rows that a rank processes at once

  // The rank that trains the row at this place of a step.
  int RankAt(int64_t place) const { return static_cast<int>(place / micro_batch % data_size); }
};

// A new order: for each place the row, counted in the old order, that comes there. From the dearest to the cheapest
// each row goes to the rank that has least to do and room left; a rank begins with its dearest rows, so that rows that
// are processed at the same time cost about the same.
std::vector<int64_t> OrderByCost(std::span<const double> costs, const RowShares& shares);

// What the busiest rank has to do, relative to the mean.
double ImbalanceOf(std::span<const double> costs, std::span<const int64_t> order, const RowShares& shares);

// The rows of a step in the order in which they are shared out.
struct StepRows {
  std::vector<int64_t> rows;
  std::vector<int64_t> places = {};  // of each before they were ordered by cost; empty: they are as drawn
  double imbalance = 1;              // ordered by cost: as they are now,
  double imbalance_in_order = 1;     // and as they were drawn
};

StepRows ShareByCost(std::span<const int64_t> drawn, const RowSource& rows, const LayerGraph& graph,
                     const RowShares& shares);

}  // namespace trireme
