// What a run's checkpoints record besides the tensors: which model, under which layout they were
// written, and the run's progress. No torch.
#pragma once

#include <cstdint>
#include <optional>

#include "checkpoint/manifest.h"
#include "core/config.pb.h"
#include "parallel/graph/graph.h"
#include "session/run_plan.h"

namespace trireme {

// What all checkpoints of a run have in common.
checkpoint::Manifest HeaderOf(const Config& config, const LayerGraph& graph, const RunPlan& plan, int world);

struct RunPosition {
  int64_t step = 0;
  int64_t updates = 0;
  int64_t rows = 0;  // of the data, without what was skipped
  std::optional<double> validation_loss{};
};
checkpoint::Progress ProgressOf(const Config& config, const RunPosition& position);

}  // namespace trireme
