// Loads Hugging Face weights into a rank's weights: only the slices it holds are read. Strict: what is
// missing, surplus, wrongly shaped or not finite is reported before the first step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/hf_directory.h"
#include "checkpoint/tensor_source.h"
#include "parallel/graph/graph.h"
#include "parallel/layers/weights.h"
#include "parallel/sharding/bucket.h"
#include "session/adapter_start.h"

namespace trireme {

// Fills the values of `entries`, whose memory is allocated.
void LoadWeights(const TensorSource& directory, const std::vector<Weights::Entry*>& entries, int rank);

// Rejects tensors of the directory that no layer of the graph uses.
void RefuseExtraTensors(const HfDirectory& directory, const LayerGraph& graph);

// Tensors of the directory's MTP layers that the graph does not use.
int64_t CountUnused(const HfDirectory& directory, const LayerGraph& graph);

// Warns if copies of a weight, such as multi-token prediction's embedding, differ from it.
void WarnOfUnequalCopies(const HfDirectory& directory, const LayerGraph& graph);

// Where the initial weights of a rank come from.
struct ValueSources {
  std::string directory = {};                // a Hugging Face directory or a checkpoint; empty: all are random
  uint64_t seed = 0;                         // of the random weights
  const TensorSource* adapter = nullptr;     // of the adapter's trained weights; nullptr: a random one
  const TensorSource* value_head = nullptr;  // of a value head that stands apart; nullptr: none does
  const AdapterStart* start = nullptr;  // of random adapters, from the weights beside them; nullptr: they stay random
};

// Fills all of a rank's buckets, once after they were allocated, layer by layer: under zero 3 only one layer is
// gathered. Collective with a start of adapters.
void FillBuckets(const std::vector<Bucket*>& buckets, const LayerGraph& graph, int rank, const ValueSources& sources);

}  // namespace trireme
