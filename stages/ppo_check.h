// What the keys of stage ppo must be, checked before anything is read, and what values come from. No torch.
#pragma once

#include <string>

#include "core/config.pb.h"

namespace trireme {

// Whether values come from a head on the policy's own layers (rl.value_model: policy); otherwise a value model is
// trained beside the policy.
bool PolicyHasValues(const Config& config);
// Whether that is so.
bool HasValueModel(const Config& config);
// The directory that the value model starts from.
std::string ValueModelOf(const Config& config);

// Refuses what does not fit together in stage ppo. Nothing for other stages.
void CheckPpo(const Config& config);

}  // namespace trireme
