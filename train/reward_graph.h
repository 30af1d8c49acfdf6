// The layer graph of a reward model that gives rewards, for checks and plans: its weights are read later. No torch.
#pragma once

#include <string>

#include "core/config.pb.h"
#include "parallel/graph/graph.h"

namespace trireme {

// Refuses a directory that has no reward model.
LayerGraph RewardGraph(const Config& config, const std::string& directory);

}  // namespace trireme
