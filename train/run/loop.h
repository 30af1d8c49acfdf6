// The training loop: rows in sampling order, forward and backward, a check of the numbers, the update, the
// log, until all steps are done. How a step is computed is up to the trainer.
#pragma once

#include "core/comm/job.h"
#include "core/config.pb.h"
#include "data/rows.h"
#include "parallel/graph/graph.h"
#include "session/run_plan.h"
#include "train/report/screen.h"

namespace trireme {

struct RunOptions {
  int64_t planned_memory =
      0;  // this rank's bytes on the device by the plan, named where they run out; 0: there is no plan
  ReportForm report = ReportForm::kRich;  // on stdout
};

// Collective over the job. Rejects what it cannot do before any device is touched.
void RunTraining(const Config& config, const LayerGraph& graph, const RunPlan& plan, Job& job,
                 const RunOptions& options = {});

}  // namespace trireme
