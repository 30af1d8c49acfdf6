// The prompts of a run that learns from a teacher, with the data's answers to them. No torch.
#pragma once

#include "core/config.pb.h"
#include "data/dataset.h"
#include "train/methods/policy/policy_prompts.h"

namespace trireme {

// Refuses fewer than a sampling takes.
Prompts OpenTaught(const Config& config, const DataPlace& place);

}  // namespace trireme
