// The layer graph of a reward model that gives rewards, for checks and plans: its weights are read later. No torch.
#pragma once

#include <cstdint>
#include <string>

#include "core/config.pb.h"
#include "parallel/graph/graph.h"

namespace trireme {

// Refuses a directory that has no reward model.
LayerGraph RewardGraph(const Config& config, const std::string& directory);

// Refuses a value model that is none, or that has another number of tokens than the policy.
void CheckValueModel(const Config& config, int64_t vocabulary);

}  // namespace trireme
