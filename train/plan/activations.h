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

// The log-sum-exp that the fused attention on npu saves with its output, of all query heads here: [tokens, heads]
// fp32.
int64_t AttentionStatisticsBytes(const Layer& layer, const ActivationShape& shape);

// What LoRA's adapters save on npu: x · Aᵀ of each adapter, [tokens, rank] fp32; an expert's for its rows.
int64_t LowRankBytes(const Layer& layer, const ActivationShape& shape);

// What DoRA saves: the outputs that it scales.
int64_t MagnitudeBytes(const LayerGraph& graph, const Layer& layer, const ActivationShape& shape);

// What a backward pass that leaves the weights' gradients for later holds until then, beside what was saved: the
// gradients of the matmuls' outputs, about as large as what selective recomputation saves, and the matmuls' inputs
// where they were recomputed. Those of attention itself are freed.
int64_t DeferredBytes(const Layer& layer, Recompute recompute, const ActivationShape& shape);

// On npu the gradient of the experts' activation is computed by ATen in fp32, ten matrices [rows, ffn] at a time.
// A token's rows times the part of the hidden units that a rank has do not depend on expert_tensor.
int64_t ExpertTemporaryBytes(const Layer& layer, const ActivationShape& shape);

// The gradients of gate and up, which an mlp's backward pass holds beside what was saved. They exist when the logits no
// longer do.
int64_t MlpTemporaryBytes(const Layer& layer, const ActivationShape& shape);

// The largest chunk of logits alive at a time, in the head only: 2^23 of them or one token's, in
// fp32, plus a copy in the computation's type if that is narrower.
int64_t LogitsBytes(const Layer& layer, const ActivationShape& shape);

}  // namespace trireme
