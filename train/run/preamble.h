// The summary before the first step: what is trained, on what, for how long, where, and the planned
// memory. No torch.
#pragma once

#include <string>

#include "core/comm/job.h"
#include "core/config.pb.h"
#include "parallel/graph/graph.h"
#include "session/run_plan.h"
#include "train/run/data_extent.h"

namespace trireme {

struct PreambleInputs {
  const Config& config;
  const LayerGraph& graph;
  const RunPlan& plan;
  const DataExtent& extent;
  const Job& job;
  std::string device;      // on which tensors are computed
  int64_t done_steps = 0;  // before this start
};
std::string PreambleText(const PreambleInputs& inputs);

}  // namespace trireme
