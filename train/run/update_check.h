// Whether a step's numbers allow an update of the weights, by run.on_nonfinite.
#pragma once

#include <cstdint>
#include <string>

#include "core/config.pb.h"
#include "train/step/trainer.h"

namespace trireme {

// Empty if loss and gradients are finite; why the step's update is skipped where that is allowed, otherwise throws. The
// same on all ranks.
std::string WhyNoUpdate(const Config& config, int64_t step, double loss, const GradientReport& report);

}  // namespace trireme
