// Which tensors the files of a model have, by its graph: a name that no layer knows and a layer whose tensor is
// missing are refused. By names alone; shapes and values are for those who read them. No torch.
#pragma once

#include <set>
#include <string>

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

// A run's checkpoint has "weights/NAME" for each of `weights`, and the optimizer's states for each of `trained`;
// any other key is refused, with the nearest.
void RefuseUnknownKeys(const StoreReader& reader, const std::set<std::string>& weights,
                       const std::set<std::string>& trained);

}  // namespace trireme
