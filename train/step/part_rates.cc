#include "train/step/part_rates.h"

#include <utility>

#include "parallel/graph/parameters.h"
#include "parallel/graph/tuning.h"

namespace trireme {

LrFactors LrFactorsOf(const OptimizerConfig& optimizer, const LayerGraph& graph) {
  if (optimizer.lr_by_name().empty()) return {};
  PartsByName parts;
  for (const Layer& layer : graph.layers) {
    if (!graph.images) break;  // all of it is the language model, which needs no word
    for (const Parameter& parameter : ParametersOf(graph, layer, {.size = 1})) {
      for (const HfTensor& tensor : parameter.hf) parts[tensor.name] = PartName(PartOf(layer));
    }
  }
  return LrFactors({optimizer.lr_by_name().begin(), optimizer.lr_by_name().end()}, std::move(parts));
}

}  // namespace trireme
