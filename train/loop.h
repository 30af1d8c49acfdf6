// The training loop: rows in their order, a step, a look at the numbers, the update, the log, until all steps
// are done. How a step is computed is the trainer's business.
#pragma once

#include "core/comm/job.h"
#include "core/config.pb.h"
#include "parallel/graph/graph.h"
#include "train/data/rows.h"
#include "session/run_plan.h"

namespace trireme {

// Collective over the job. Refuses what it cannot do before the first device is touched.
void RunTraining(const Config& config, const LayerGraph& graph, const RunPlan& plan, Job& job);

}  // namespace trireme
