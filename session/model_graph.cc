#include "session/model_graph.h"

#include "core/base/error.h"
#include "models/families.h"
#include "models/reward_model.h"
#include "parallel/graph/parameters.h"
#include "session/tuning.h"

namespace trireme {
namespace {

// A reward model is trained from a causal one, whose value head is new, or from a reward model.
void TakeValueHead(LayerGraph& graph, const Config& config) {
  const bool has_one = HasValueHead(graph);
  if (config.stage() != STAGE_RM) {
    if (!has_one) return;
    throw InputError(config.model().path(), ": is a reward model, which has scores in place of logits; ",
                     "train it with stage: rm, or let it score with `trireme score`");
  }
  if (has_one) return;
  ReplaceHead(graph);
  graph.drawn.insert(kScoreWeight);
}

}  // namespace

LayerGraph ReadGraph(const Config& config) {
  if (config.model().path().empty()) {
    throw InputError("model.path is empty; set it to the directory of a Hugging Face model");
  }
  LayerGraph graph = BuildGraph(HfConfig::Read(config.model().path()));
  TakeValueHead(graph, config);
  ApplyMultiToken(graph, config);
  ApplyTuning(graph, config.tuning());
  return graph;
}

}  // namespace trireme
