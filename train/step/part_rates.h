// Learning rates by name, where a name may be a part of a model that sees: vision, aligner, language. Which layer is of
// which part is tuning.h's to say. No torch.
#pragma once

#include "core/config.pb.h"
#include "parallel/graph/graph.h"
#include "parallel/sharding/lr_factors.h"

namespace trireme {

// optimizer.lr_by_name for the parameters of this graph.
LrFactors LrFactorsOf(const OptimizerConfig& optimizer, const LayerGraph& graph);

}  // namespace trireme
