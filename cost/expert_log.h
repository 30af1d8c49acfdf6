// How uneven experts were loaded in a run, from the log.jsonl that it wrote. Knows no time.
#pragma once

#include <string>

#include "parallel/graph/graph.h"

namespace trireme {

// Rows of the busiest of `ranks` expert-parallel ranks over the mean, averaged over layers and logged steps. A log
// without experts, or of another model, is an input error.
double ImbalanceOf(const std::string& log, const LayerGraph& graph, int ranks);

}  // namespace trireme
