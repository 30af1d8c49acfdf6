// From a configuration to the layer graph that is run: the model's config.json, multi-token prediction, tuning. Reads
// no weights; no torch.
#pragma once

#include "core/config.pb.h"
#include "parallel/graph/graph.h"

namespace trireme {

// Refuses an empty model.path, and what the model or the tuning cannot be.
LayerGraph ReadGraph(const Config& config);

}  // namespace trireme
