// How much a step trained, and how fast, for its line of the log.
#pragma once

#include <cstdint>
#include <span>

#include "data/rows.h"
#include "parallel/graph/graph.h"
#include "train/report/logged_step.h"

namespace trireme {

// Adds the tokens and samples of a step's rows, and its rates by its seconds and the device's peak, FLOP/s of all
// ranks.
void AddSpeed(const LayerGraph& graph, const RowSource& rows, std::span<const int64_t> batch, double peak_rate,
              LoggedStep& step);

}  // namespace trireme
