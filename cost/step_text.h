// A step's estimate for people and for programs.
#pragma once

#include <string>

#include "core/base/json.h"
#include "cost/step_model.h"

namespace trireme {

Json ToJson(const StepEstimate& step);
Json ToJson(const StepPhases& phases);
// Tokens per second, share of the peak, and a bar for each part of the time.
std::string ToText(const StepEstimate& step, const DeviceRates& device, int world);

}  // namespace trireme
