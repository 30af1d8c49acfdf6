// The parameters of each layer: declared once, with shape, split, Hugging Face names and initial values. From
// this list come reading, writing, gradients and memory; the layers themselves find theirs by role.
#pragma once

#include <vector>

#include "core/plan/parameter.h"
#include "parallel/graph/graph.h"

namespace trireme {

struct TensorSplit {
  int size = 1;           // of the axis tp
  bool sequence = true;   // between the blocks each rank holds its share of the tokens
  int expert = 1;         // of the axis ep
  int expert_tensor = 1;  // of the axis etp
};

// In a fixed order. A declaration's name is the layer's and the role: "layers.3.attention.qkv.weight". Sizes
// that the layout cannot split are refused, with the numbers.
std::vector<Parameter> ParametersOf(const LayerGraph& graph, const Layer& layer, const TensorSplit& split);

bool HasExperts(const LayerGraph& graph);

// Whether the head's logits use the embedding's weight.
bool HasTiedHead(const LayerGraph& graph);
// Whether anything behind the decoder layers does: the head, or multi-token prediction.
bool UsesEmbeddingAgain(const LayerGraph& graph);

}  // namespace trireme
