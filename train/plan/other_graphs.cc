#include "train/plan/other_graphs.h"

#include "checkpoint/hf_directory.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "session/model_graph.h"
#include "session/value_head.h"

namespace trireme {
namespace {

// A reference of its own directory speaks of the same tokens, in the same architecture.
void CheckAlike(const Config& config, const LayerGraph& graph, const OtherModel& model) {
  if (!PathExists(model.directory)) {
    throw InputError(model.key, ": ", model.directory, " does not exist; give the path of an existing file");
  }
  const LayerGraph found = GraphOf(config, model);
  if (found.family != graph.family) {
    throw InputError(model.key, ": ", model.directory, " is a ", found.family, " model, ", config.model().path(), " a ",
                     graph.family, " one; wanted the same architecture");
  }
  if (VocabularyOf(found) != VocabularyOf(graph)) {
    throw InputError(model.key, ": ", model.directory, " has a vocabulary of ", VocabularyOf(found), ", ",
                     config.model().path(), " one of ", VocabularyOf(graph), "; wanted the same");
  }
}

void CheckTokens(const Config& config, const LayerGraph& graph, const OtherModel& model) {
  const int64_t theirs = VocabularyOf(GraphOf(config, model));
  if (model.reads.empty() || theirs == VocabularyOf(graph)) return;
  throw InputError(model.key, ": ", model.directory, " has a vocabulary of ", theirs, " tokens, and the ", model.own_is,
                   " ", config.model().path(), " one of ", VocabularyOf(graph), "; ", model.reads);
}

}  // namespace

LayerGraph GraphOf(const Config& config, const OtherModel& model) {
  const Config own = ConfigOf(config, model);
  LayerGraph graph = ReadGraph(own, model.head);
  if (model.head == HeadKind::kScore) ScoreBiasOf(own, graph);
  return graph;
}

void CheckOtherModels(const Config& config, const LayerGraph& graph) {
  for (const OtherModel& model : OtherModels(config)) {
    if (model.directory.empty()) continue;
    if (model.alike && model.directory == config.model().path()) continue;
    model.alike ? CheckAlike(config, graph, model) : CheckTokens(config, graph, model);
    const HfDirectory weights(model.directory);
  }
}

}  // namespace trireme
