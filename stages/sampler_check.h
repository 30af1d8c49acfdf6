// What the keys of rl.sampler must be, checked before anything is read. No torch.
#pragma once

#include "core/config.pb.h"

namespace trireme {

// Refuses what does not fit together, or has no part in the run.
void CheckSampler(const Config& config);

}  // namespace trireme
