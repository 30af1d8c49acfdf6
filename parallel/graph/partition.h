// Partition: which layers of a graph each pipeline stage holds, by cost or as the user specifies. Which rank
// a stage is placed on is the schedule's placement, not decided here.
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

// One entry per stage, in stage order; together they cover every layer once, and none is empty.
//
// `explicit_layers` empty: minimises the largest stage's forward cost for sequences of `length` tokens; among
// those layouts takes the most even one (least sum of squares), and among those the one whose earlier stages
// hold fewer layers, since they keep the most micro batches in flight. Refuses more stages than decoder
// layers. Otherwise: the number of decoder layers per stage; the vision tower and the embedding go with the first
// stage, the head and the mtp layers with the last, and only those two stages may have none. Decoder layers that take
// features of the tower beside the tokens are in the first stage, too.
std::vector<StageLayers> PartitionLayers(const LayerGraph& graph, int stages, const std::vector<int>& explicit_layers,
                                         int64_t length);

// "embedding, layers.0-3, head".
std::string LayersText(const LayerGraph& graph, const StageLayers& stage);

}  // namespace trireme
