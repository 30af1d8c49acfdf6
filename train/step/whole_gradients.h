// The full gradient of every parameter, under its Hugging Face name, on rank 0: what `trireme grads`
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

// Collective over `world`. `gradients` are this rank's shards as ShardedOptimizer::Gradients returns them, in
// host memory; `graph` names every tensor, including those of other ranks. They are communicated through the
// memory of `device`, where the group communicates. fp32, in the shape of the file.
std::map<std::string, at::Tensor> GatherGradients(const LayerGraph& graph, const std::vector<Shard>& gradients,
                                                  Communicator& world, at::Device device = at::kCPU);

}  // namespace trireme
