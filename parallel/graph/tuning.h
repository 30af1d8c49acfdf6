// Tuning: which part of a graph is trained. Each function turns a graph whose weights are all trained into
// one with LoRA adapters, or with most weights frozen; parameters, gradients, memory and files follow from
// it.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/plan/adapter.h"
#include "parallel/graph/graph.h"

namespace trireme {

// Attention, mlp and experts; not routers, not the head. Of a model that sees: of its language model; a part's name
// means the same of that part.
inline constexpr char kAllLinear[] = "all-linear";
inline constexpr char kAllWeights[] = "all";  // for freeze: every weight of the layers

// Parts of a model that sees, for tuning.freeze and optimizer.lr_by_name: the tower, its mergers, and all else.
enum class ModelPart { kLanguage, kVision, kAligner };
ModelPart PartOf(const Layer& layer);
std::string PartName(ModelPart part);  // vision, aligner, language

inline constexpr char kRegex[] = "re:";  // before a regular expression that a module's whole name must match

// Module names from a run's config ("q_proj", "mlp.gate_proj"): each matches all modules whose name ends with
// it; or regular expressions. `key` is the config key, for messages.
struct TargetNames {
  std::string key;
  std::vector<std::string> names;
  std::vector<std::string> excluded = {};  // of tuning.exclude: modules that the names do not mean
  std::set<ModelPart> frozen = {};         // parts that the names do not reach
};

// The modules of a new adapter. Refuses a name that matches no module, with the nearest one, and modules that
// cannot have an adapter.
AdapterPlan PlanAdapter(const LayerGraph& graph, const TargetNames& targets, const TargetNames& saved,
                        const AdapterModule& each);

// Adds LoRA adapters to the plan's modules and trains nothing else but its saved ones. Refuses modules that
// the graph does not have, and experts of one layer that differ.
void ApplyAdapter(LayerGraph& graph, const AdapterPlan& plan);

// Trains no weight of these parts, whatever else is trained. Refuses to leave nothing.
void FreezeParts(LayerGraph& graph, const std::set<ModelPart>& parts);

// Marks the matrices of attention, mlp and experts as packed, except those that the names mean; nothing of them is
// trained. Refuses matrices that the tuning trains as they are. For products in FP8 experts stay as they are.
void PackBase(LayerGraph& graph, const PackedStorage& storage, const TargetNames& except);
// The same matrices, stored as they are and multiplied in e4m3; they may be trained.
void CastProducts(LayerGraph& graph, const TargetNames& except);
// Where nothing is trained: what would be cast for every product is stored in e4m3.
void StoreCastProducts(LayerGraph& graph);

// Whether training needs to know what adapters started with: the weights beside them have lost it.
inline bool KeepsInitial(const LayerGraph& graph) { return graph.adapter && !graph.adapter->init.empty(); }

// Trains only the targets' own weights, in the last `last_layers` decoder layers (0: in all), and those of
// `saved` in any layer.
void Freeze(LayerGraph& graph, const TargetNames& targets, const TargetNames& saved, int64_t last_layers);

}  // namespace trireme
