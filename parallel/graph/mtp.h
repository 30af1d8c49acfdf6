// Multi-token prediction: turns a graph that predicts the next token into one that predicts later ones as
// well.
#pragma once

#include <cstdint>

#include "parallel/graph/graph.h"

namespace trireme {

// Inserts the first `mtp_depths` layers of graph.mtp before the head. They share the embedding and the
// logits' weight with the model; the files' copies of these are written from the model's own. `weight`: of
// the mean of the depths' losses. Call it before the graph is tuned; 0 depths change nothing.
void AddMtpLayers(LayerGraph& graph, int64_t mtp_depths, double weight);

}  // namespace trireme
