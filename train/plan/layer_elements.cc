#include "train/plan/layer_elements.h"

#include "core/packing/packed_parts.h"
#include "parallel/graph/like_layers.h"

namespace trireme {
namespace {

void AddLayer(const LayerGraph& graph, const Layer& layer, const TensorSplit& split, const Grids& grids,
              LayerElements& elements) {
  for (auto* part : {&elements.dense, &elements.experts, &elements.packed}) {
    for (LayerElements::OfLayers& of_layers : *part) of_layers.push_back(0);
  }
  for (const Parameter& parameter : ParametersOf(graph, layer, split)) {
    const Placement placement(parameter.declaration, grids);
    const bool of_experts = parameter.declaration.grid == GridKind::kExpert;
    if (parameter.packed) {  // as rank 0 of the grid has them: what others have differs by a scale or two
      elements.packed[of_experts ? 1 : 0].back() += PackedPartsOf(parameter, placement, /*rank=*/0).bytes;
    } else {
      (of_experts ? elements.experts : elements.dense)[parameter.trained ? 1 : 0].back() +=
          Elements(placement.LocalShape());
    }
  }
}

}  // namespace

LayerElements CountElements(const LayerGraph& graph, const TensorSplit& split, const Grids& grids) {
  LayerElements elements;
  elements.like = LikeLayers(graph);
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    if (elements.like[i] == i) {
      AddLayer(graph, graph.layers[i], split, grids, elements);
      continue;
    }
    for (auto* part : {&elements.dense, &elements.experts, &elements.packed}) {
      for (LayerElements::OfLayers& of_layers : *part) of_layers.push_back(of_layers[elements.like[i]]);
    }
  }
  return elements;
}

}  // namespace trireme
