// MemoryPlan: the device memory that training needs on every rank, part by part, before anything runs. What
// persists within a step; temporaries of single operators are not included.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/config.pb.h"
#include "core/plan/groups.h"
#include "parallel/graph/partition.h"
#include "parallel/schedule/simulate.h"
#include "train/plan/layer_elements.h"

namespace trireme {

struct RankMemory {  // bytes
  int64_t values = 0;
  int64_t gradients = 0;      // fp32
  int64_t masters = 0;        // fp32 copies of the values, where those are narrower
  int64_t moments = 0;        // the optimizer's states beside the masters, fp32
  int64_t activations = 0;    // of all micro batches that are alive at once
  int64_t logits = 0;         // the chunk of them that is alive at a time
  int64_t workspace = 0;      // on npu: attention's mask, and the largest temporaries of a layer's backward pass
  int64_t communicators = 0;  // HCCL's buffers
  int64_t host = 0;           // masters and moments that are offloaded, all the time or in samplings, and activations
  bool operator==(const RankMemory&) const = default;

  int64_t device() const {
    return values + gradients + masters + moments + activations + logits + workspace + communicators;
  }
};

// Whether a run with these settings computes on an Ascend device, or the twin's; on a GPU.
bool PlansForNpu(const Config& config);
bool PlansForCuda(const Config& config);

struct MemoryInputs {
  const Config& config;
  const LayerGraph& graph;
  const Grids& grids;
  const GroupPlan& groups;
  const StagePlacement& placement;
  const std::vector<StageLayers>& stages;
  const Timeline& timeline;  // of a step's schedule: how many micro batches are in flight
  bool npu = PlansForNpu(config);
  bool cuda = PlansForCuda(config);
  const LayerElements* elements = nullptr;  // of this split; null: to be counted
};

// One entry per rank. Parameters that the layout cannot split are input errors with the numbers.
std::vector<RankMemory> PlanMemory(const MemoryInputs& inputs);

// The same for each pipeline rank, without communicators: the ranks of one are alike.
std::vector<RankMemory> PlanPositions(const MemoryInputs& inputs);

// A table in MiB, one line for all ranks with equal needs.
std::string ToText(const std::vector<RankMemory>& ranks);

}  // namespace trireme
