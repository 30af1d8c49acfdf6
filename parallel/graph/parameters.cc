#include "parallel/graph/parameters.h"

#include <algorithm>

#include "core/plan/grids.h"
#include "core/plan/placement.h"
#include "parallel/graph/declarer.h"
#include "parallel/graph/layer_block.h"

namespace trireme {

std::vector<Parameter> ParametersOf(const LayerGraph& graph, const Layer& layer, const TensorSplit& split) {
  Declarer declare(graph, layer, split);
  for (const auto& block : BlocksOf(layer.spec)) block->Declare(declare);
  return declare.Take();
}

int64_t CountParameters(const LayerGraph& graph, bool trained_only) {
  const Grids alone = MakeGrids(1, {});
  int64_t count = 0;
  for (const Layer& layer : graph.layers) {
    for (const Parameter& parameter : ParametersOf(graph, layer, {})) {
      if (trained_only && !parameter.trained) continue;
      count += Elements(Placement(parameter.declaration, alone).GlobalShape());
    }
  }
  return count;
}

bool HasExperts(const LayerGraph& graph) {
  return std::any_of(graph.layers.begin(), graph.layers.end(), [](const Layer& layer) {
    const DecoderSpec* decoder = DecoderOf(layer.spec);
    return decoder != nullptr && decoder->experts.has_value();
  });
}

bool HasTiedHead(const LayerGraph& graph) {
  const auto* head = graph.layers.empty() ? nullptr : std::get_if<HeadSpec>(&graph.layers.back().spec);
  return head != nullptr && head->tied;
}

bool HasValueHead(const LayerGraph& graph) {
  const auto* head = graph.layers.empty() ? nullptr : std::get_if<HeadSpec>(&graph.layers.back().spec);
  return head != nullptr && head->scores && head->vocabulary > 0;
}

bool UsesEmbeddingAgain(const LayerGraph& graph) {
  const auto* head = graph.layers.empty() ? nullptr : std::get_if<HeadSpec>(&graph.layers.back().spec);
  return head != nullptr && (head->tied || head->mtp_depths > 0);
}

}  // namespace trireme
