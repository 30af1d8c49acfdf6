#include "parallel/executor/model.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace trireme {
namespace {

bool IsHead(const Layer& layer) { return std::holds_alternative<HeadSpec>(layer.spec); }

}  // namespace

bool TiedEmbeddingIsSplit(const LayerGraph& graph, const StagePlacement& placement) {
  return HasTiedHead(graph) && placement.SiteOf(0).rank != placement.SiteOf(placement.stages() - 1).rank;
}

Model::Model(const LayerGraph& graph, const ModelLayout& layout, const CommunicatorSet& groups,
             const ModelOptions& options)
    : tensor_{groups.Get("tp"), options.sequence} {
  const int pipeline_rank = layout.grids.dense.Coordinate(layout.rank, "pp");
  const StageSite first = layout.placement.SiteOf(0);
  const StageSite last = layout.placement.SiteOf(layout.placement.stages() - 1);
  if (TiedEmbeddingIsSplit(graph, layout.placement)) {
    head_has_copy_ = last.rank == pipeline_rank;
    if (head_has_copy_ || first.rank == pipeline_rank) tied_embedding_ = &groups.Get("embedding");
  }
  const std::vector<Layer> layers = LayersOf(graph, layout);
  weights_ = std::make_unique<Weights>(graph, layers, layout.grids,
                                       TensorSplit{.size = tensor_.size(), .sequence = options.sequence});
  MakeBuckets(layers, groups, options);
  for (int chunk = 0; chunk < layout.placement.chunks; ++chunk) {
    const StageLayers& range = layout.stages[layout.placement.StageAt(pipeline_rank, chunk)];
    std::vector<StageLayer> running;
    for (size_t i = range.begin; i < range.end; ++i) {
      running.push_back(
          MakeStageLayer(graph, graph.layers[i], {.recompute_selected = options.keep == Keep::kSelected}));
    }
    stages_.push_back(std::make_unique<RunningStage>(
        std::move(running), StageOptions{.recompute_layers = options.keep == Keep::kLayerInputs,
                                         .weights_want_values = options.keep == Keep::kSelected,
                                         .type = options.type,
                                         .hidden = HiddenOf(graph),
                                         .token_parts = options.sequence ? tensor_.size() : 1}));
  }
}

std::vector<Layer> Model::LayersOf(const LayerGraph& graph, const ModelLayout& layout) const {
  const int pipeline_rank = layout.grids.dense.Coordinate(layout.rank, "pp");
  std::vector<Layer> layers;
  for (int chunk = 0; chunk < layout.placement.chunks; ++chunk) {
    const StageLayers& range = layout.stages[layout.placement.StageAt(pipeline_rank, chunk)];
    for (size_t i = range.begin; i < range.end; ++i) layers.push_back(graph.layers[i]);
  }
  if (head_has_copy_) layers.push_back(graph.layers.front());
  return layers;
}

void Model::MakeBuckets(const std::vector<Layer>& layers, const CommunicatorSet& groups,
                        const ModelOptions& options) {
  for (const Layer& layer : layers) {
    buckets_.push_back(std::make_unique<Bucket>(
        layer.name, weights_->EntriesOf(layer.name), groups.Get("dp-cp"),
        BucketOptions{.zero = options.zero, .type = options.type, .device = options.device}));
  }
}

StageLayer Model::MakeStageLayer(const LayerGraph& graph, const Layer& layer, const LayerOptions& options) {
  StageLayer running{.layer = MakeLayer(layer, *weights_, tensor_, options),
                     .uses = {BucketOf(layer.name)},
                     .owns = {BucketOf(layer.name)}};
  if (IsHead(layer) && HasTiedHead(graph)) {
    Bucket* embedding = BucketOf(graph.layers.front().name);
    running.uses.push_back(embedding);
    if (head_has_copy_) running.owns.push_back(embedding);
  }
  return running;
}

Bucket* Model::BucketOf(const std::string& layer) {
  const auto found = std::find_if(buckets_.begin(), buckets_.end(),
                                  [&](const auto& bucket) { return bucket->layer() == layer; });
  TRIREME_CHECK(found != buckets_.end()) << "no bucket of layer " << layer << " on this rank";
  return found->get();
}

std::vector<Bucket*> Model::buckets() {
  std::vector<Bucket*> list;
  for (const auto& bucket : buckets_) list.push_back(bucket.get());
  return list;
}

std::vector<StageWork*> Model::chunks() {
  std::vector<StageWork*> list;
  for (const auto& stage : stages_) list.push_back(stage.get());
  return list;
}

void Model::SetBatches(const std::vector<MicroBatch>& batches) {
  for (const auto& stage : stages_) stage->SetBatches(&batches);
}

at::Tensor Model::loss() const {
  for (const auto& stage : stages_) {
    if (stage->loss().defined()) return stage->loss();
  }
  return {};
}

}  // namespace trireme
