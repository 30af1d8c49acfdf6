// Opens the inputs of a run before any device is touched, and what rank 0 prints about them. No torch.
#pragma once

#include <ostream>
#include <string>

#include "core/comm/job.h"
#include "core/config.pb.h"
#include "parallel/graph/graph.h"
#include "session/run_plan.h"
#include "train/states/run_inputs.h"

namespace trireme {

// Collective, with the output directory locked. The references outlive what it returns.
RunInputs OpenInputs(const Config& config, const LayerGraph& graph, const RunPlan& plan, Job& job);

// For a run that is already complete: prints that nothing was trained, and what the output contains.
void SayComplete(const RunInputs& inputs, const Job& job, std::ostream& out);

// Before the first step: model, data, steps, device, memory, and how this start differs from the one
// before.
void SayWhatBegins(const RunInputs& inputs, const std::string& device, const Job& job, std::ostream& out);

}  // namespace trireme
