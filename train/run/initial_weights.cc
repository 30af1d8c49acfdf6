#include "train/run/initial_weights.h"

#include "checkpoint/adapter_directory.h"
#include "checkpoint/hf_directory.h"
#include "checkpoint/state_tensors.h"
#include "checkpoint/store_reader.h"
#include "checkpoint/value_head_names.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "models/reward_model.h"
#include "parallel/graph/parameters.h"
#include "session/load_weights.h"
#include "session/tuning.h"
#include "session/value_head.h"
#include "stages/other_models.h"
#include "train/plan/other_graphs.h"
#include "train/states/resume.h"

namespace trireme {
namespace {

// That of a reward model, or of a policy, where the model's own files have none.
void SayWhereHeadComesFrom(const Config& config, const LayerGraph& graph) {
  if (graph.drawn.empty()) return;
  const std::string name = HasValueHead(graph) ? kScoreWeight : kValueHeadWeight;
  const std::unique_ptr<ValueHead> apart = FindValueHead(config);
  if (config.model().init() == MODEL_INIT_WEIGHTS && HfDirectory(config.model().path()).Has(name)) return;
  if (const auto adapter = OpenAdapter(config.tuning(), graph); adapter && adapter->Has(name)) return;
  if (apart == nullptr || config.model().init() == MODEL_INIT_RANDOM) {
    TRIREME_LOG(INFO) << config.model().path() << " has no value head: " << name
                      << " is new, drawn from run.seed = " << config.run().seed();
    return;
  }
  TRIREME_LOG(INFO) << name << " is the value head of " << apart->FileOf(name).string();
  if (name != kScoreWeight || apart->bias() == 0) return;
  TRIREME_LOG(WARNING) << apart->FileOf(kScoreWeight).string() << ": its bias " << apart->bias()
                       << " is left out, as reward models of transformers have none: all scores are lower by it";
}

// New tokens whose rows stay the mean of the others, because an adapter leaves them as they are.
void WarnUntrainedTokens(const ModelConfig& model, const LayerGraph& graph) {
  const bool grows = !model.new_tokens().empty() || !model.new_special_tokens().empty();
  const auto& trained = graph.layers[EmbeddingIndex(graph)].trained;
  if (!grows || !graph.adapter || !trained || trained->contains("embedding.weight")) return;
  TRIREME_LOG(WARNING)
      << "the embeddings of model.new_tokens are not trained; add embed_tokens, and lm_head where the head is "
      << "not tied, to tuning.modules_to_save";
}

// Those that a run's checkpoints contain beside its own.
void CheckSavedModels(const Config& config, const std::filesystem::path& checkpoint) {
  for (const OtherModel& model : OtherModels(config)) {
    if (model.saved_as.empty()) continue;
    if (!IsCheckpoint(checkpoint / model.saved_as)) {
      throw InputError(checkpoint.string(), ": has no ", model.saved_as, ", because its run had no ", model.saved_with,
                       "; keep that run's settings, or start over: another run.output, and run.resume: auto");
    }
    if (!model.trained) continue;
    const StoreReader reader(checkpoint / model.saved_as);
    CheckResumable(reader, GraphOf(config, model), config.optimizer());
  }
}

}  // namespace

void CheckInitialWeights(const Config& config, const LayerGraph& graph, const RunStart& start,
                         const checkpoint::DataPosition& data) {
  if (!start.checkpoint) return;
  const StoreReader reader(*start.checkpoint);
  CheckResumable(reader, graph, config.optimizer());
  CheckSavedModels(config, *start.checkpoint);
  CheckSameData(reader.manifest().progress().data(), data, *start.checkpoint, config);
}

void LoadInitialWeights(const LayerGraph& graph, const RunStart& start, Trainer& trainer, Job& job, Method& method) {
  if (!start.checkpoint) {
    if (job.rank() == 0) SayWhereHeadComesFrom(trainer.session().config(), graph);
    if (job.rank() == 0) WarnUntrainedTokens(trainer.session().config().model(), graph);
    trainer.session().TakeWeights();
    if (method.wants_start()) method.TakeStart();
    return;
  }
  StoreReader reader(*start.checkpoint);
  if (!graph.adapter) {
    PrepareStates(reader, trainer, job);
  } else if (method.wants_start()) {
    trainer.session().TakeWeights();
    method.TakeStart();
  } else {
    // Of the base model alone: what its adapter trains is read next.
    const StateTensors initial(reader, kInitialState);
    trainer.session().TakeWeights(nullptr, graph.adapter->init.empty() ? nullptr : &initial);
  }
  LoadStates(reader, trainer, job);
  if (job.rank() == 0) {
    TRIREME_LOG(INFO) << "resuming from " << start.checkpoint->string() << ", step " << start.step;
  }
}

void WarnUnused(const Config& config, const LayerGraph& trained) {
  LayerGraph graph = trained;
  std::erase(graph.unused, "lm_head.");  // of which a reward model has no use
  if (config.model().init() != MODEL_INIT_WEIGHTS || graph.adapter || graph.unused.empty()) return;
  const int64_t count = CountUnused(HfDirectory(config.model().path()), graph);
  if (count == 0) return;
  TRIREME_LOG(WARNING) << config.model().path() << ": its " << count << " tensors of " << Join(graph.unused)
                       << " are not trained and will be missing from this run's output; "
                       << (graph.mtp.empty() ? "this family's layers for further tokens are not supported"
                                             : "set multi_token_prediction.depths to use them");
}

}  // namespace trireme
