// Tuning: what of a graph is trained. Each function turns a graph whose weights are all trained into one with
// low-rank pairs, or with most weights frozen; parameters, gradients, memory and files follow from the graph.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/adapter.h"
#include "parallel/graph/graph.h"

namespace trireme {

inline constexpr char kAllLinear[] = "all-linear";  // attention, mlp and experts; not routers, not the head
inline constexpr char kAllWeights[] = "all";        // of a frozen model: whatever the layers have

// What a run asks for. Names are modules' ("q_proj", "mlp.gate_proj"): each takes all modules whose name ends
// with it. `key` is where they were written, for messages.
struct TargetNames {
  std::string key;
  std::vector<std::string> names;
};

// The modules of a new adapter. Refuses a name that no module has, with the nearest, and one that cannot have
// a pair.
AdapterPlan PlanAdapter(const LayerGraph& graph, const TargetNames& targets, const TargetNames& saved,
                        const AdapterModule& each);

// Low-rank pairs beside the plan's modules, and nothing else is trained but its saved ones. Refuses modules
// that the graph does not have, and experts of a layer that differ.
void ApplyAdapter(LayerGraph& graph, const AdapterPlan& plan);

// Only the targets' own weights are trained, in the last `last_layers` decoder layers (0: in all), and those
// of `saved` wherever they are.
void Freeze(LayerGraph& graph, const TargetNames& targets, const TargetNames& saved, int64_t last_layers);

}  // namespace trireme
