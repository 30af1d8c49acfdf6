// What the keys of rl.sampler must be, checked before anything is read. No torch.
#pragma once

#include "core/config.pb.h"

namespace trireme {

// Refuses what does not fit together, or has no part in the run.
void CheckSampler(const Config& config);

// Whether completions are sampled in this program under another layout than that of training (rl.sampling).
bool HasSamplingLayout(const Config& config);
// The same run under that layout.
Config UnderSamplingLayout(const Config& config);

}  // namespace trireme
