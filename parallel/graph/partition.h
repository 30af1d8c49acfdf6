// Partition: which layers of a graph each stage of a pipeline holds, by what they cost or as the user says.
// Which rank a stage lives on is the schedule's placement, not decided here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "parallel/graph/graph.h"

namespace trireme {

struct StageLayers {  // indices into graph.layers: [begin, end)
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const StageLayers&) const = default;
};

// One entry a stage, in the order of the stages; together they are all layers, each once, and none is empty.
//
// `explicit_layers` empty: the largest stage's forward cost, for sequences of `length` tokens, is as small as
// can be; among those layouts the most even one (least sum of squares); among those the one whose earlier
// stages hold fewer layers, for they keep the most micro batches. More stages than decoder layers are
// refused. Otherwise: the decoder layers of each stage; the embedding goes with the first stage and the head,
// with the layers of multi-token prediction, with the last, and only those two may have none.
std::vector<StageLayers> PartitionLayers(const LayerGraph& graph, int stages,
                                         const std::vector<int>& explicit_layers, int64_t length);

// "embedding, layers.0-3, head".
std::string LayersText(const LayerGraph& graph, const StageLayers& stage);

}  // namespace trireme
