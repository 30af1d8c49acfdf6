// Which tensors a model's files must have, by its graph: a name that no layer uses and a layer whose tensor
// is missing are input errors. Checks names only; shapes and values are checked on reading. No torch.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "checkpoint/hf_directory.h"
#include "parallel/graph/graph.h"

namespace trireme {

// Whether the tensor belongs to an MTP layer that the graph does not have.
bool IsUnused(const std::string& name, const LayerGraph& graph);

// Rejects tensors of the directory that no layer of the graph uses.
void RefuseUnknownTensors(const HfDirectory& directory, const LayerGraph& graph);
// Rejects a directory that lacks a tensor of the graph. Experts may be fused in one tensor.
void RefuseMissingTensors(const HfDirectory& directory, const LayerGraph& graph);
// For an adapter's checkpoint: rejects adapters and weights of modules that the graph does not have.
void RefuseUnknownModules(const HfDirectory& adapter, const LayerGraph& graph);

// What a run's checkpoint holds.
struct KnownKeys {
  std::set<std::string> weights;    // "weights/NAME" of each
  std::set<std::string> trained;    // "STATE/NAME" of each and each of `states`
  std::vector<std::string> states;  // the optimizer's, with the master
};
// Any other key is refused, with the nearest.
void RefuseUnknownKeys(const StoreReader& reader, const KnownKeys& keys);

}  // namespace trireme
