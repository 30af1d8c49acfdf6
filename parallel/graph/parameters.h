// The parameters of each layer: declared once, with shape, split, Hugging Face names and initial weights.
// Reading, writing, gradients and memory derive from this list; the layers find their parameters by role.
#pragma once

#include <vector>

#include "core/plan/parameter.h"
#include "parallel/graph/graph.h"

namespace trireme {

struct TensorSplit {
  int size = 1;           // size of axis tp
  bool sequence = true;   // between blocks each rank holds its share of the tokens
  int expert = 1;         // size of axis ep
  int expert_tensor = 1;  // size of axis etp
};

// In a fixed order. A declaration is named by layer and role: "layers.3.attention.qkv.weight". Refuses sizes
// that the layout cannot split, and reports them.
std::vector<Parameter> ParametersOf(const LayerGraph& graph, const Layer& layer, const TensorSplit& split);

// Parameters of the whole model, or only the trained ones.
int64_t CountParameters(const LayerGraph& graph, bool trained_only);

bool HasExperts(const LayerGraph& graph);

// Whether the head's logits use the embedding's weight.
bool HasTiedHead(const LayerGraph& graph);
// Whether the head gives scores in place of logits: a reward model.
bool HasValueHead(const LayerGraph& graph);
// Whether anything after the decoder layers does: the head, or multi-token prediction.
bool UsesEmbeddingAgain(const LayerGraph& graph);

}  // namespace trireme
