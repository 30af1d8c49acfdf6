// What the forward pass of one micro batch saves for the backward pass, layer by layer, in bytes:
// sums over the layer's blocks (parallel/graph/layer_block.h), which know their sizes. docs/training.md shows
// the formula.
#pragma once

#include <cstdint>

#include "core/config.pb.h"
#include "parallel/graph/graph.h"
#include "parallel/graph/layer_block.h"

namespace trireme {

// Held from the layer's forward pass to its weight gradient. Assumes that all experts get equally many
// tokens.
int64_t SavedActivationBytes(const Layer& layer, Recompute recompute, const ActivationShape& shape);

// What its backward pass recomputes, on top of that.
int64_t RecomputedActivationBytes(const Layer& layer, Recompute recompute, const ActivationShape& shape);

// The softmax's maximum and sum that the fused attention on npu saves with its output, of all query heads
// here: [tokens, heads, 8] fp32 each.
int64_t AttentionStatisticsBytes(const Layer& layer, const ActivationShape& shape);

// The largest chunk of logits alive at a time, in the head only: 2^23 of them or one token's, in
// fp32, plus a copy in the computation's type if that is narrower.
int64_t LogitsBytes(const Layer& layer, const ActivationShape& shape);

}  // namespace trireme
