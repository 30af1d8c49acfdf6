// From model.quantise in a run's configuration to packed matrices in the graph. No torch.
#pragma once

#include "core/config.pb.h"
#include "parallel/graph/graph.h"

namespace trireme {

// After the tuning. Refuses block sizes and kinds that are not there, and keys without a meaning.
void ApplyPacking(LayerGraph& graph, const Config& config);

}  // namespace trireme
