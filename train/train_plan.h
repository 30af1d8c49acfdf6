// TrainPlan: what `trireme train` would do, worked out without a device: model, grids, groups, stages,
// schedule, memory. Refuses what cannot work, before anything starts; prints for people.
#pragma once

#include <string>
#include <vector>

#include "core/config.pb.h"
#include "parallel/schedule/simulate.h"
#include "train/memory_plan.h"
#include "session/run_plan.h"

namespace trireme {

struct TrainPlan {
  Config config;  // as it is run: with an adapter's own rank, alpha and targets
  LayerGraph graph;
  RunPlan run;
  int micro_batches = 1;  // a step, on each data-parallel rank
  Timeline timeline;      // of a step, as if all stages took as long
  int drawn_micro_batches = 1;
  Timeline drawn;  // of so many: what a drawing shows
  std::vector<RankMemory> memory;
};

TrainPlan MakeTrainPlan(const Config& config, int world);

std::string ToText(const TrainPlan& plan);

}  // namespace trireme
