// Initial weights where none are loaded: drawn by the parameter's name and the element's
// global position, so that every layout starts from the same model.
#pragma once

#include <cstdint>

#include "parallel/graph/graph.h"
#include "parallel/layers/weights.h"

namespace trireme {

void FillRandomWeights(const std::vector<Weights::Entry*>& entries, int rank, uint64_t seed);

// In the embedding, where it is one of these, the padding token's row starts as zeros, as that of transformers' models
// does.
void ZeroPaddingRow(const std::vector<Weights::Entry*>& entries, const LayerGraph& graph, int rank);

}  // namespace trireme
