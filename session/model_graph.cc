#include "session/model_graph.h"

#include "core/base/error.h"
#include "models/families.h"
#include "session/tuning.h"

namespace trireme {

LayerGraph ReadGraph(const Config& config) {
  if (config.model().path().empty()) {
    throw InputError("model.path is empty; set it to the directory of a Hugging Face model");
  }
  LayerGraph graph = BuildGraph(HfConfig::Read(config.model().path()));
  ApplyMultiToken(graph, config);
  ApplyTuning(graph, config.tuning());
  return graph;
}

}  // namespace trireme
