// RunPlan: everything that a configuration, a model and a number of ranks determine before any device is
// touched: grids, groups, stages, schedule. Plain values; rejects, with numbers, what does not fit. No torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/comm/communicator_set.h"
#include "core/config.pb.h"
#include "core/plan/grids.h"
#include "core/plan/groups.h"
#include "parallel/graph/parameters.h"
#include "parallel/graph/partition.h"
#include "parallel/schedule/schedules.h"

namespace trireme {

ParallelSizes SizesOf(const ParallelConfig& parallel);
TensorSplit SplitOf(const ParallelConfig& parallel);

// Whether new adapters start from the weights beside them (session/adapter_start.h).
bool StartsAdapters(const TuningConfig& tuning);
// Whether whole tensors are put together over the ranks of a pipeline stage.
bool UsesStageGroup(const Config& config);

// Without a model: expert groups exist if the layout has expert axes.
GroupPlan GroupsOf(const Config& config, const Grids& grids);
GroupPlan GroupsOf(const Config& config, const Grids& grids, bool experts);

CommOptions CommOptionsOf(const Config& config);

// Data type of forward and backward; rejects unsupported ones.
DType DTypeOf(const ModelConfig& model);

struct RunPlan {
  Grids grids;
  GroupPlan groups;
  StagePlacement placement;
  std::vector<StageLayers> stages;  // the layers of each pipeline stage
  std::string schedule;
  int virtual_stages = 1;
  int zero = 1;
  int ulysses = 1;           // of the context ranks; the rest is a ring
  int64_t row_multiple = 1;  // rows are padded to a multiple of this many tokens

  // The schedule of a step with that many micro batches per rank.
  Schedule ScheduleFor(int micro_batches) const;
  // The same for an evaluation.
  Schedule ForwardScheduleFor(int micro_batches) const;
  // Micro batches per rank for that many rows over all data-parallel ranks.
  int MicroBatches(int64_t rows, int micro_batch) const;
};

RunPlan PlanRun(const Config& config, const LayerGraph& graph, int world);

}  // namespace trireme
