// What a model costs to compute, in floating-point operations, from the layers' sizes alone. Used to
// partition layers onto stages and to report model FLOPs utilisation. Counts what the model needs, not what
// an implementation spends: recomputation and padding are excluded, as are norms and other work that is small
// compared with the matmuls.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/image_grid.h"
#include "parallel/graph/graph.h"

namespace trireme {

// Parameters of a layer that take part in matmuls: the head's logits do, tied or not; the embedding, a
// lookup, does not, nor do norms and biases. Of the experts only those that one token is routed to.
int64_t MatMulParameters(const Layer& layer);

// Forward pass of one sequence: 2 per matmul parameter and token, plus causal attention over the lower
// triangle, 2 matmuls of 2 · heads · head_dim · length² / 2.
double ForwardFlops(const Layer& layer, int64_t length);

// Training on `rows` sequences: three times the forward pass, since the backward pass has two matmuls for
// each; twice if no weight of the layer is trained. LoRA adapters are negligible.
double ModelFlops(const LayerGraph& graph, int64_t rows, int64_t length);

// What a row of the data consists of: tokens attend within their document, patches within their frame or window of an
// image.
struct RowExtent {
  std::vector<int64_t> documents;  // their lengths
  std::vector<ImageGrid> images = {};
};

// Training on one such row. A frozen vision tower has no backward pass.
double ModelFlops(const LayerGraph& graph, const RowExtent& row);

}  // namespace trireme
