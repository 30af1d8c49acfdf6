// What a model costs to compute, in floating-point operations: from the layers' sizes alone. For the
// partition of layers onto stages and for the share of a device's speed that training reaches. Counts what
// the model needs, not what an implementation spends: recomputation and padding are not in it, nor are norms
// and other work that is small beside the products.
#pragma once

#include <cstdint>

#include "parallel/graph/graph.h"

namespace trireme {

// Parameters of a layer that take part in matrix products: the head's logits do, tied or not; the embedding,
// a lookup, does not, nor do norms and biases. Of experts those that one token meets.
int64_t ProductParameters(const Layer& layer);

// Forward, of one sequence: 2 a product parameter and token, and causal attention over the lower triangle,
// 2 products of 2 · heads · head_dim · length² / 2.
double ForwardFlops(const Layer& layer, int64_t length);

// Training over `rows` sequences: three times forward, for a backward pass makes two products of each; twice
// where no weight of the layer is trained. Low-rank pairs are small beside the products.
double ModelFlops(const LayerGraph& graph, int64_t rows, int64_t length);

}  // namespace trireme
