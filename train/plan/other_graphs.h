// The layer graphs of models beside the run's own (stages/other_models.h), for checks and plans: their weights are read
// later. No torch.
#pragma once

#include "core/config.pb.h"
#include "parallel/graph/graph.h"
#include "stages/other_models.h"

namespace trireme {

// Refuses a directory that has no model of this kind.
LayerGraph GraphOf(const Config& config, const OtherModel& model);

// Refuses those of a run that do not fit its own model, of this graph: other tokens where it reads the run's, another
// architecture where it is alike, no weights.
void CheckOtherModels(const Config& config, const LayerGraph& graph);

}  // namespace trireme
