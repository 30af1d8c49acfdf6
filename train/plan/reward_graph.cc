#include "train/plan/reward_graph.h"

#include "core/base/error.h"
#include "session/model_graph.h"
#include "session/value_head.h"
#include "stages/ppo_check.h"

namespace trireme {

LayerGraph RewardGraph(const Config& config, const std::string& directory) {
  if (directory.empty()) throw InputError("rl.rewards has 'model:' without a directory; write model:DIR");
  Config scored;
  scored.mutable_model()->set_path(directory);
  scored.mutable_model()->set_dtype(config.model().dtype());
  scored.mutable_tuning()->set_kind(TUNING_FULL);
  LayerGraph graph = ReadGraph(scored, HeadKind::kScore);
  ScoreBiasOf(scored, graph);
  return graph;
}

void CheckValueModel(const Config& config, int64_t vocabulary) {
  const std::string directory = ValueModelOf(config);
  const int64_t theirs = VocabularyOf(RewardGraph(config, directory));
  if (theirs == vocabulary) return;
  throw InputError("rl.value_model: ", directory, " has a vocabulary of ", theirs, " tokens, and the policy ",
                   config.model().path(), " one of ", vocabulary,
                   "; it reads the policy's tokens: use one with its tokenizer");
}

}  // namespace trireme
