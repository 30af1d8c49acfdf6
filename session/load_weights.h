// Hugging Face weights into a rank's own: only the slices it holds are read. Strict: what is missing, too
// much, wrongly shaped or not finite is named before the first step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/hf_directory.h"
#include "checkpoint/tensor_source.h"
#include "parallel/graph/graph.h"
#include "parallel/layers/weights.h"
#include "parallel/sharding/bucket.h"

namespace trireme {

// Fills the values of `entries`, which have their memory.
void LoadWeights(const TensorSource& directory, const std::vector<Weights::Entry*>& entries, int rank);

// Refuses tensors of the directory that no layer of the graph takes.
void RefuseExtraTensors(const HfDirectory& directory, const LayerGraph& graph);

// Tensors of the directory for further tokens that the graph has no use for.
int64_t CountUnused(const HfDirectory& directory, const LayerGraph& graph);

// Says so where copies of a weight, such as multi-token prediction's embedding, are not equal to it.
void WarnOfUnequalCopies(const HfDirectory& directory, const LayerGraph& graph);

// Where the first values of a rank's parameters come from.
struct ValueSources {
  std::string directory = {};             // a Hugging Face directory or a checkpoint; empty: all are drawn
  uint64_t seed = 0;                      // of what is drawn
  const TensorSource* adapter = nullptr;  // of what the graph's adapter trains; nullptr: pairs are drawn
};

// All of a rank's buckets, once after they were made, one at a time: under zero 3 only one is whole.
void FillBuckets(const std::vector<Bucket*>& buckets, const LayerGraph& graph, int rank,
                 const ValueSources& sources);

}  // namespace trireme
