// The inputs of a run, known before any device is touched. Knows not how they are found. No torch.
#pragma once

#include <cstdint>
#include <memory>

#include "core/config.pb.h"
#include "data/dataset.h"
#include "parallel/graph/graph.h"
#include "session/run_plan.h"
#include "train/states/run_start.h"

namespace trireme {

class RolloutSource;
class PromptSet;

struct RunInputs {
  const Config& config;
  const LayerGraph& graph;
  const RunPlan& plan;
  DataSets data;
  std::shared_ptr<RolloutSource> replay;     // of stages that train on completions, where a file has them
  std::shared_ptr<const PromptSet> sampled;  // otherwise what they are sampled for
  RunStart start;
  int64_t total_steps = 0;
  int64_t steps_per_epoch = 0;
};

}  // namespace trireme
