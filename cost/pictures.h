// Pictures of a plan as stand-alone SVG: when a pipeline's ranks compute and exchange, and which layouts are fast.
#pragma once

#include <string>

#include "cost/search.h"
#include "cost/step_model.h"

namespace trireme {

// The first rounds of a step on the ranks of one pipeline, to scale.
std::string TimelineSvg(StepModel& model, const Layout& layout);

// The fastest step for each size of tensor and pipeline parallelism. Searches each pair of them.
std::string LayoutsSvg(const Config& config, const LayerGraph& graph, const DeviceRates& device,
                       const Assumptions& assumptions, int world, const SearchOptions& options);

}  // namespace trireme
