// From a configuration to how a model's layers run: type, sharding, recomputation, routers.
#pragma once

#include "core/config.pb.h"
#include "parallel/executor/model.h"

namespace trireme {

ModelOptions ModelOptionsOf(const Config& config, const LayerGraph& graph);

}  // namespace trireme
