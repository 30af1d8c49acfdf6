// The rewards of ms-swift's `rlhf`: names, classes of its external_plugins, reward models. Reads a plug-in as text to
// find which class a name stands for; never runs it.
#pragma once

#include <string>

#include "translate/given.h"
#include "translate/translation.h"

namespace trireme {

// rl.rewards of reward_funcs, external_plugins and reward_model, in ms-swift's order, which that of reward_weights is.
void SetSwiftRewards(const Given& given, Translation& result);

}  // namespace trireme
