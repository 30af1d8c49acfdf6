// Options of training that do not fit together: refused by name before any work. What one key may hold, and where it
// counts, is in the schema. No torch.
#pragma once

#include "core/base/problems.h"
#include "core/config.pb.h"
#include "parallel/graph/graph.h"

namespace trireme {

void CheckTrainingOptions(const Config& config, Problems& problems);

// Those that are about the model's parameters: how an adapter starts, DoRA, optimizer.lr_by_name.
void CheckParameterOptions(const Config& config, const LayerGraph& graph);

}  // namespace trireme
