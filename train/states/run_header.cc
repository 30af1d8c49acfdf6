#include "train/states/run_header.h"

#include <string>

#include "checkpoint/adapter_config.h"
#include "checkpoint/packed_format.h"
#include "core/base/file.h"
#include "models/reward_model.h"
#include "models/text_labels.h"
#include "parallel/graph/parameters.h"
#include "stages/retrieval_check.h"

namespace trireme {
namespace {

// The config.json that the trained model has, from that of the model which training started from.
std::string ConfigFor(const Config& config, const LayerGraph& graph, const std::string& text) {
  const std::string& model = config.model().path();
  if (HeadOf(config) == HeadKind::kVector) {
    const auto& sizes = config.retrieval().matryoshka();
    return VectorModelConfig(text, model, {sizes.begin(), sizes.end()});
  }
  if (!HasValueHead(graph)) return text;
  if (FactsOf(config).records != Records::kLabelled) return RewardModelConfig(text, model);
  return ClassifierConfig(text, model, LabelNamesOf(config.retrieval(), model), ProblemTypeOf(config.retrieval()));
}

}  // namespace

checkpoint::Manifest HeaderOf(const Config& config, const LayerGraph& graph, const RunPlan& plan, int world) {
  checkpoint::Manifest header;
  header.set_writer("trireme");
  header.set_family(graph.family);
  header.set_model_config(
      WithoutQuantisation(ReadTextFile(config.model().path() + "/config.json"), config.model().path()));
  // An adapter's is that of its base.
  if (!graph.adapter) header.set_model_config(ConfigFor(config, graph, header.model_config()));
  if (graph.adapter) header.set_adapter_config(AdapterConfigText(*graph.adapter, config.model().path()));
  const ParallelConfig& parallel = config.parallel();
  checkpoint::Layout& layout = *header.mutable_layout();
  layout.set_world(static_cast<uint32_t>(world));
  layout.set_tensor(static_cast<uint32_t>(parallel.tensor()));
  layout.set_pipeline(static_cast<uint32_t>(parallel.pipeline()));
  layout.set_context(static_cast<uint32_t>(parallel.context()));
  layout.set_expert(static_cast<uint32_t>(parallel.expert()));
  layout.set_expert_tensor(static_cast<uint32_t>(parallel.expert_tensor()));
  layout.set_data(static_cast<uint32_t>(plan.grids.dense.Size("dp")));
  layout.set_zero(static_cast<uint32_t>(plan.zero));
  layout.set_schedule(plan.schedule);
  layout.set_virtual_stages(static_cast<uint32_t>(plan.virtual_stages));
  layout.set_dtype(std::string(Name(DTypeOf(config.model()))));
  return header;
}

checkpoint::Progress ProgressOf(const Config& config, const RunPosition& position) {
  checkpoint::Progress progress;
  progress.set_step(position.step);
  progress.set_updates(position.updates);
  progress.set_seed(static_cast<uint64_t>(config.run().seed()));
  if (position.validation_loss) progress.set_validation_loss(*position.validation_loss);
  checkpoint::DataPosition& data = *progress.mutable_data();
  data.set_rows(config.data().streaming() ? 0 : position.rows);  // 0: stream.jsonl knows them
  data.set_global_batch(config.run().global_batch());
  *data.mutable_batch_ramp() = config.run().batch_ramp();
  data.set_shuffle(config.data().shuffle());
  data.set_seed(static_cast<uint64_t>(config.run().seed()));
  return progress;
}

}  // namespace trireme
