#include "parallel/graph/like_layers.h"

#include <map>
#include <string>

#include "core/base/text.h"
#include "parallel/graph/layer_block.h"

namespace trireme {
namespace {

std::string KeyOf(const Layer& layer) {
  std::string key = Join(BlocksOf(layer.spec), "; ", [](const auto& block) { return block->ToText(); });
  for (const auto& [role, adapter] : layer.low_rank) key += Concat(" ", role, ":", adapter.rank);
  if (layer.trained) key += " trained " + Join(*layer.trained);
  return key + " packed " + Join(layer.packed) + " cast " + Join(layer.cast);
}

}  // namespace

std::vector<size_t> LikeLayers(const LayerGraph& graph) {
  std::map<std::string, size_t> first;
  std::vector<size_t> like;
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    like.push_back(first.emplace(KeyOf(graph.layers[i]), i).first->second);
  }
  return like;
}

}  // namespace trireme
