// From a configuration to the layer graph to run: the model's config.json, multi-token prediction, tuning.
// Reads no weights; no torch.
#pragma once

#include "core/config.pb.h"
#include "parallel/graph/graph.h"

namespace trireme {

// An empty model.path and an impossible model or tuning are input errors.
LayerGraph ReadGraph(const Config& config);

}  // namespace trireme
