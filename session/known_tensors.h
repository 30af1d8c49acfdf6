// Which tensors the files of a model have, by its graph: a name that no layer knows and a layer whose tensor is
// missing are refused. By names alone; shapes and values are for those who read them. No torch.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "checkpoint/hf_directory.h"
#include "parallel/graph/graph.h"

namespace trireme {

// Whether the tensor is for further tokens that the graph does not predict.
bool IsUnused(const std::string& name, const LayerGraph& graph);

// Refuses tensors of the directory that no layer of the graph takes.
void RefuseUnknownTensors(const HfDirectory& directory, const LayerGraph& graph);
// Refuses a directory that lacks a tensor of the graph. Experts may lie in one tensor.
void RefuseMissingTensors(const HfDirectory& directory, const LayerGraph& graph);
// Of an adapter's checkpoint: refuses pairs and weights of modules that the graph does not have.
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
