#include "train/reward_graph.h"

#include "core/base/error.h"
#include "session/model_graph.h"
#include "session/value_head.h"

namespace trireme {

LayerGraph RewardGraph(const Config& config, const std::string& directory) {
  if (directory.empty()) throw InputError("rl.rewards has 'model:' without a directory; write model:DIR");
  Config scored;
  scored.set_stage(STAGE_RM);
  scored.mutable_model()->set_path(directory);
  scored.mutable_model()->set_dtype(config.model().dtype());
  LayerGraph graph = ReadGraph(scored);
  ScoreBiasOf(scored, graph);
  return graph;
}

}  // namespace trireme
