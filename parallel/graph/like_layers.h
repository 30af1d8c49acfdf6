// Which layers of a model are alike, so that what follows from their sizes is computed once.
#pragma once

#include <cstddef>
#include <vector>

#include "parallel/graph/graph.h"

namespace trireme {

// For each layer the first one with the same blocks, sizes, adapters and trained weights.
std::vector<size_t> LikeLayers(const LayerGraph& graph);

}  // namespace trireme
