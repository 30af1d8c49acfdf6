// What the keys of reference_sync must be, checked before anything is read. No torch.
#pragma once

#include "core/config.pb.h"

namespace trireme {

// Refuses them where no second model could follow the policy.
void CheckReferenceSync(const Config& config);

}  // namespace trireme
