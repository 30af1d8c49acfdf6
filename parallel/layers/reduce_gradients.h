// Sums gradients over the ranks that each have a part of them, once, after all micro batches: data-parallel
// ranks, tensor-parallel ranks that saw different tokens or heads, and ranks that share key-value heads.
#pragma once

#include "core/comm/communicator.h"
#include "parallel/layers/weights.h"

namespace trireme {

// `data` joins the ranks with other rows (and other tokens of the same rows), `tensor` those with other
// parts.
void ReduceGradients(const Weights& weights, Communicator& data, Communicator& tensor);

}  // namespace trireme
