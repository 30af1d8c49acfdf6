// TrainPlan: what `trireme train` would do, computed without a device: model, grids, groups, stages,
// schedule, memory. Rejects what cannot work before anything starts; human-readable.
#pragma once

#include <string>
#include <vector>

#include "core/config.pb.h"
#include "parallel/schedule/simulate.h"
#include "session/run_plan.h"
#include "train/plan/memory_plan.h"

namespace trireme {

struct TrainPlan {
  Config config;  // as resolved: with a loaded adapter's rank, alpha and targets
  LayerGraph graph;
  RunPlan run;
  int micro_batches = 1;  // per step, on each data-parallel rank
  Timeline timeline;      // of a step, as if all stages took equally long
  int drawn_micro_batches = 1;
  Timeline drawn;  // of the micro batches that a drawing shows
  std::vector<RankMemory> memory;
};

TrainPlan MakeTrainPlan(const Config& config, int world);
// The same plan's memory for rows of up to so many tokens, where the data says how many: records may have any number of
// texts.
void PlanMemoryFor(TrainPlan& plan, int64_t longest_row);

// Refuses what optimizer.update and optimizer.masters cannot do with the rest; MakeTrainPlan does so, too.
void CheckUpdate(const Config& config, int world);

std::string ToText(const TrainPlan& plan);

}  // namespace trireme
