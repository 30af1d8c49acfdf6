#include "parallel/graph/graph.h"

#include <algorithm>
#include <sstream>

#include "core/base/text.h"
#include "parallel/graph/layer_block.h"

namespace trireme {

size_t EmbeddingIndex(const LayerGraph& graph) {
  size_t index = 0;
  while (index < graph.layers.size() && TowerOf(graph.layers[index].spec) != nullptr) ++index;
  return index;
}

size_t FirstTrained(const LayerGraph& graph) {
  const size_t embedding = EmbeddingIndex(graph);
  for (size_t i = 0; i < embedding; ++i) {
    const Layer& layer = graph.layers[i];
    if (!layer.trained || !layer.trained->empty() || !layer.low_rank.empty()) return i;
  }
  return embedding;
}

int64_t TapsIn(const LayerGraph& graph) {
  const size_t index = EmbeddingIndex(graph);
  const auto* embedding = index < graph.layers.size() ? std::get_if<EmbeddingSpec>(&graph.layers[index].spec) : nullptr;
  return embedding != nullptr ? embedding->taps : 0;
}

int64_t DecodersIn(const LayerGraph& graph) {
  return std::count_if(graph.layers.begin(), graph.layers.end(),
                       [](const Layer& layer) { return std::holds_alternative<DecoderSpec>(layer.spec); });
}

int64_t VocabularyOf(const LayerGraph& graph) {
  return std::get<EmbeddingSpec>(graph.layers.at(EmbeddingIndex(graph)).spec).vocabulary;
}

int64_t HiddenOf(const LayerGraph& graph) {
  return std::get<EmbeddingSpec>(graph.layers.at(EmbeddingIndex(graph)).spec).hidden;
}

std::string ToText(const LayerGraph& graph) {
  std::ostringstream out;
  out << graph.family << ", " << Name(graph.dtype) << ", " << graph.layers.size() << " layers\n";
  for (const Layer& layer : graph.layers) {
    out << "  " << layer.name << ": ";
    out << Join(BlocksOf(layer.spec), ", ", [](const auto& block) { return block->ToText(); }) << "\n";
  }
  return out.str();
}

}  // namespace trireme
