// What the configuration's keys say to a run's objective. No torch.
#pragma once

#include "core/config.pb.h"
#include "parallel/objectives/objective_options.h"

namespace trireme {

ObjectiveOptions ObjectiveOptionsOf(const Config& config);

}  // namespace trireme
