// From a configuration to the layer graph to run: the model's config.json, multi-token prediction, tuning.
// Reads no weights; no torch.
#pragma once

#include "core/config.pb.h"
#include "parallel/graph/graph.h"
#include "stages/stage.h"

namespace trireme {

// As the stage trains it. An empty model.path and an impossible model or tuning are input errors.
LayerGraph ReadGraph(const Config& config);
// With this head, for another use of the model than the stage's: scores, or logits.
LayerGraph ReadGraph(const Config& config, HeadKind head);

}  // namespace trireme
