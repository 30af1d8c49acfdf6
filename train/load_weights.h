// Hugging Face weights into a rank's own: only the slices it holds are read. Strict: what is missing, too
// much, wrongly shaped or not finite is named before the first step.
#pragma once

#include "checkpoint/hf_directory.h"
#include "checkpoint/tensor_source.h"
#include "parallel/graph/graph.h"
#include "parallel/layers/weights.h"

namespace trireme {

// Fills the values of `entries`, which have their memory.
void LoadWeights(const TensorSource& directory, const std::vector<Weights::Entry*>& entries, int rank);

// Refuses tensors of the directory that no layer of the graph takes.
void RefuseExtraTensors(const HfDirectory& directory, const LayerGraph& graph);

}  // namespace trireme
