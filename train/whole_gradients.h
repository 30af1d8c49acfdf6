// The gradient of every parameter, whole, under its Hugging Face name, on rank 0: what `trireme grads`
// writes. For models that fit into one host's memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "core/plan/shard.h"
#include "parallel/graph/graph.h"

namespace trireme {

// Collective over `world`. `gradients` are this rank's shards as ShardedOptimizer::Gradients gives them, in
// host memory; `graph` names every tensor, also those of other ranks. They travel through the memory of
// `device`, the group's. fp32, in the shape of the file.
std::map<std::string, at::Tensor> GatherGradients(const LayerGraph& graph,
                                                  const std::vector<Shard>& gradients, Communicator& world,
                                                  at::Device device = at::kCPU);

}  // namespace trireme
