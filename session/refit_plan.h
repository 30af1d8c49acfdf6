// RefitPlan: how a model's weights get from one layout to another on the same ranks: which box of which parameter goes
// from which rank to which. Plain values, the same on every rank; moves nothing itself. No torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/box.h"
#include "core/plan/dtype.h"
#include "parallel/graph/graph.h"
#include "parallel/graph/parameters.h"
#include "session/run_plan.h"

namespace trireme {

// A model under one of the layouts.
struct LaidOutModel {
  const LayerGraph& graph;
  const RunPlan& plan;
  TensorSplit split;
};

struct RefitMove {
  size_t parameter = 0;             // in RefitPlan::parameters
  int source = 0, destination = 0;  // ranks; equal: it stays in this rank's memory
  Box box = {};                     // of the full parameter
};

struct RefitParameter {
  std::string name;
  size_t layer = 0;  // of the graph
  Shape shape = {};
  DType dtype = DType::kFp32;
};

struct RefitPlan {
  int world = 1;
  std::vector<RefitParameter> parameters;
  // By parameter, then by box, then by destination: every rank walks through them in this order, so that sends and
  // receives of two ranks match.
  std::vector<RefitMove> moves;

  int64_t Bytes(const RefitMove& move) const;
};

// What a rank holds of a parameter under a layout, without padding; nothing if its pipeline stages have none of it.
std::vector<Box> BoxesHeld(const LaidOutModel& model, size_t layer, const Parameter& parameter, int rank);

// Each destination gets each of its elements once. A rank that holds a box already keeps it; otherwise the ranks that
// hold it take turns in sending it. Both layouts are of the same graph and the same number of ranks. `dtype`: of the
// weights; buffers are fp32.
RefitPlan PlanRefit(const LaidOutModel& from, const LaidOutModel& to, DType dtype);

// Per rank: what it keeps, and what it receives from whom.
std::string ToText(const RefitPlan& plan);

}  // namespace trireme
