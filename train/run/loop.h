// The training loop: a step of the method, a check of the numbers, the update, the log, the saves, until all steps are
// done. What a step trains on and how is the method's business (train/methods/method.h).
#pragma once

#include <memory>

#include "core/comm/job.h"
#include "core/config.pb.h"
#include "parallel/graph/graph.h"
#include "session/run_plan.h"
#include "train/report/logged_step.h"
#include "train/report/screen.h"

namespace trireme {

class Method;

struct RunOptions {
  int64_t planned_memory =
      0;  // this rank's bytes on the device by the plan, named where they run out; 0: there is no plan
  ReportForm report = ReportForm::kRich;  // on stdout
  MetricValues predicted = {};            // numbers of a step by a plan, in each line of the log beside the measured
};

// Collective over the job. Rejects what it cannot do before any device is touched. The method is a fresh one, and ends
// before the model that it trains.
void RunTraining(const Config& config, const LayerGraph& graph, const RunPlan& plan, Job& job,
                 std::unique_ptr<Method> method, const RunOptions& options = {});

}  // namespace trireme
