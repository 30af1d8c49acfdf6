// The words before the first step: what is trained, on what, for how long, where, and the memory that is
// planned. No torch.
#pragma once

#include <string>

#include "core/comm/job.h"
#include "core/config.pb.h"
#include "parallel/graph/graph.h"
#include "train/data_extent.h"
#include "session/run_plan.h"

namespace trireme {

// Parameters of the whole model, or those of them that are trained.
int64_t CountParameters(const LayerGraph& graph, bool trained_only);

struct PreambleInputs {
  const Config& config;
  const LayerGraph& graph;
  const RunPlan& plan;
  const DataExtent& extent;
  const Job& job;
  std::string device;      // that tensors are computed on
  int64_t done_steps = 0;  // before this start
};
std::string PreambleText(const PreambleInputs& inputs);

}  // namespace trireme
