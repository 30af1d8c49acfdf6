// The gradient of every parameter, whole, under its Hugging Face name, on rank 0: what `trireme grads`
// writes. For models that fit into one host's memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "core/comm/communicator.h"
#include "parallel/layers/weights.h"

namespace trireme {

// Collective over `world`. `graph` names every tensor, also those of other ranks. fp32, in the shape of the
// file.
std::map<std::string, at::Tensor> GatherGradients(const LayerGraph& graph, const Weights& weights,
                                                  Communicator& world);

// The norm of all gradients together.
double GlobalNorm(const std::map<std::string, at::Tensor>& gradients);

}  // namespace trireme
