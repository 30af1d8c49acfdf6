// The inputs of a run, opened before any device is touched, and what rank 0 prints about them.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "core/comm/job.h"
#include "core/config.pb.h"
#include "data/dataset.h"
#include "parallel/graph/graph.h"
#include "session/run_plan.h"
#include "train/methods/method.h"
#include "train/states/run_start.h"

namespace trireme {

struct RunInputs {
  const Config& config;
  const LayerGraph& graph;
  const RunPlan& plan;
  DataSets data;
  RunStart start;
  int64_t total_steps = 0;
};

// Collective, with the output directory locked. The references outlive what it returns.
RunInputs OpenInputs(const Config& config, const LayerGraph& graph, const RunPlan& plan, Job& job, Method& method);

// For a run that is already complete: prints that nothing was trained, and what the output contains.
void SayComplete(const RunInputs& inputs, const Job& job, std::ostream& out);

// Before the first step: model, data, steps, device, memory, and how this start differs from the one
// before.
void SayWhatBegins(const RunInputs& inputs, const std::string& device, const Job& job, std::ostream& out);

}  // namespace trireme
