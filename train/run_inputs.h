// The inputs of a run, known before any device is touched, and what rank 0 prints about them. No torch.
#pragma once

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>

#include "core/comm/job.h"
#include "core/config.pb.h"
#include "parallel/graph/graph.h"
#include "session/run_plan.h"
#include "train/data/dataset.h"
#include "train/rollouts/prompt_set.h"
#include "train/rollouts/rollout_source.h"
#include "train/run_start.h"

namespace trireme {

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

// Collective, with the output directory locked. The references outlive what it returns.
RunInputs OpenInputs(const Config& config, const LayerGraph& graph, const RunPlan& plan, Job& job);

// For a run that is already complete: prints that nothing was trained, and what the output contains.
void SayComplete(const RunInputs& inputs, const Job& job, std::ostream& out);

// Before the first step: model, data, steps, device, memory, and how this start differs from the one
// before.
void SayWhatBegins(const RunInputs& inputs, const std::string& device, const Job& job, std::ostream& out);

}  // namespace trireme
