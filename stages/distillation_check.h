// What the keys of stage gkd must be, checked before anything is read. No torch.
#pragma once

#include "core/config.pb.h"

namespace trireme {

// Whether some steps of stage gkd train on answers that a model writes, and not the data.
bool DistillationSamples(const Config& config);

// Refuses what does not fit together. Nothing for other stages.
void CheckDistillation(const Config& config);

}  // namespace trireme
