// From model.fp8 in a run's configuration to matrices in e4m3 in the graph. No torch.
#pragma once

#include "core/config.pb.h"
#include "parallel/graph/graph.h"

namespace trireme {

// After the tuning. Refuses what has no products in FP8 yet, other packed weights beside them, and matrices whose part
// on a rank has no sizes for them.
void ApplyFp8(LayerGraph& graph, const Config& config);

}  // namespace trireme
