// Multi-token prediction: turns a graph that predicts the next token into one that predicts further ones too.
#pragma once

#include <cstdint>

#include "parallel/graph/graph.h"

namespace trireme {

// Puts the first `depths` of graph.mtp to use, before the head. They share the embedding and the logits'
// weight with the rest; the files' copies of these are written from the model's own. `weight`: of the mean of
// the depths' losses. Before the graph is tuned; 0 changes nothing.
void PredictFurther(LayerGraph& graph, int64_t depths, double weight);

}  // namespace trireme
