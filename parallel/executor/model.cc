#include "parallel/executor/model.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

// A model without experts has no such group: the tensor-parallel one serves as a placeholder.
ExpertParallel ExpertsOf(const LayerGraph& graph, const ModelLayout& layout, const CommunicatorSet& groups,
                         bool global) {
  if (!HasExperts(graph)) return {.group = groups.Get("tp")};
  return {.group = groups.Get("etp-ep"),
          .expert = layout.grids.expert.Size("ep"),
          .expert_tensor = layout.grids.expert.Size("etp"),
          .routers = {.batch = &groups.Get("tp-cp"), .stage = global ? &groups.Get("stage") : nullptr}};
}

// Whether the layer uses the embedding's weight, which another layer owns.
bool UsesEmbedding(const Layer& layer) {
  const auto* head = std::get_if<HeadSpec>(&layer.spec);
  return head != nullptr ? head->tied : std::holds_alternative<MtpSpec>(layer.spec);
}

// The first such layer: after its backward pass the gradient of such a copy is complete.
const Layer* FirstUserOfEmbedding(const LayerGraph& graph) {
  const auto found = std::find_if(graph.layers.begin(), graph.layers.end(), &UsesEmbedding);
  return found == graph.layers.end() ? nullptr : &*found;
}

}  // namespace

bool EmbeddingIsSplit(const LayerGraph& graph, const StagePlacement& placement) {
  return UsesEmbeddingAgain(graph) && placement.SiteOf(0).rank != placement.SiteOf(placement.stages() - 1).rank;
}

Model::Model(const LayerGraph& graph, const ModelLayout& layout, const CommunicatorSet& groups,
             const ModelOptions& options)
    : placement_(layout.placement),
      parallel_{.tensor = {groups.Get("tp"), options.sequence},
                .experts = ExpertsOf(graph, layout, groups, options.router.balance == BalanceOver::kGlobal),
                .context = {.group = groups.Get("cp"),
                            .ring = groups.Get("cp").size() / options.ulysses,
                            .ulysses = options.ulysses}} {
  const int pipeline_rank = layout.grids.dense.Coordinate(layout.rank, "pp");
  const StageSite first = layout.placement.SiteOf(0);
  const StageSite last = layout.placement.SiteOf(layout.placement.stages() - 1);
  if (EmbeddingIsSplit(graph, layout.placement)) {
    head_has_copy_ = last.rank == pipeline_rank;
    if (head_has_copy_ || first.rank == pipeline_rank) tied_embedding_ = &groups.Get("embedding");
  }
  const std::vector<Layer> layers = LayersOf(graph, layout);
  weights_ = std::make_unique<Weights>(graph, layers, layout.grids,
                                       TensorSplit{.size = parallel_.tensor.size(),
                                                   .sequence = options.sequence,
                                                   .expert = parallel_.experts.expert,
                                                   .expert_tensor = parallel_.experts.expert_tensor});
  Pack(layout.rank, options.type);
  MakeBuckets(layers, groups, options);
  if (options.kept_feature_bytes > 0) kept_features_ = std::make_unique<KeptFeatures>(options.kept_feature_bytes);
  for (int chunk = 0; chunk < layout.placement.chunks; ++chunk) {
    const StageLayers& range = layout.stages[layout.placement.StageAt(pipeline_rank, chunk)];
    std::vector<StageLayer> running;
    for (size_t i = range.begin; i < range.end; ++i) {
      running.push_back(MakeStageLayer(graph, graph.layers[i],
                                       {.recompute_selected = options.keep == Keep::kSelected,
                                        .adapter_dropout = graph.adapter ? graph.adapter->dropout : 0,
                                        .hidden_dropout = options.hidden_dropout,
                                        .neftune_alpha = options.neftune_alpha,
                                        .router = options.router,
                                        .kept_features = kept_features_.get()}));
      running.back().recomputed = IsRecomputed(i, EmbeddingIndex(graph), options.recompute_every);
      running.back().differentiated = FirstTrained(graph) <= i;
    }
    stages_.push_back(std::make_unique<RunningStage>(
        std::move(running), StageOptions{.recompute_layers = options.keep == Keep::kLayerInputs,
                                         .offload_inputs = options.offload_activations,
                                         .weights_want_values = options.keep == Keep::kSelected,
                                         .type = options.type,
                                         .hidden = HiddenOf(graph),
                                         .token_parts = options.sequence ? parallel_.tensor.size() : 1}));
  }
}

std::vector<Layer> Model::LayersOf(const LayerGraph& graph, const ModelLayout& layout) const {
  const int pipeline_rank = layout.grids.dense.Coordinate(layout.rank, "pp");
  std::vector<Layer> layers;
  for (int chunk = 0; chunk < layout.placement.chunks; ++chunk) {
    const StageLayers& range = layout.stages[layout.placement.StageAt(pipeline_rank, chunk)];
    for (size_t i = range.begin; i < range.end; ++i) layers.push_back(graph.layers[i]);
  }
  if (head_has_copy_) layers.push_back(graph.layers[EmbeddingIndex(graph)]);
  return layers;
}

// Places of packed weights on this rank, before anything has memory.
void Model::Pack(int rank, at::ScalarType type) {
  for (Weights::Entry& entry : weights_->entries()) {
    entry.weight.cast_to_fp8 = entry.parameter.cast_to_fp8;
    if (!entry.parameter.packed) continue;
    TRIREME_CHECK(!entry.parameter.trained) << entry.weight.name << " is packed and trained";
    entry.weight.packed = std::make_shared<PackedWeight>(PackedPartsOf(entry.parameter, entry.placement, rank),
                                                         entry.placement.LocalShape(), type);
  }
}

void Model::MakeBuckets(const std::vector<Layer>& layers, const CommunicatorSet& groups, const ModelOptions& options) {
  const BucketOptions trained{.zero = options.zero,
                              .type = options.type,
                              .device = options.device,
                              .masters = options.masters,
                              .offload_values = options.offload_parameters};
  BucketOptions frozen = trained, buffers = trained;
  frozen.trained = buffers.trained = false;
  BucketOptions packed = frozen;
  packed.type = at::kByte;
  buffers.zero = 0;
  buffers.type = at::kFloat;
  for (const Layer& layer : layers) {
    const auto add = [&](GridKind grid, BucketOptions bucket, bool is_buffer) {
      std::vector<Weights::Entry*> entries;
      for (Weights::Entry* entry : weights_->EntriesOf(layer.name)) {
        const bool same_grid = entry->placement.declaration().grid == grid;
        const Parameter& parameter = entry->parameter;
        const bool is_trained = parameter.trained && options.trained;
        const bool same_storage = parameter.packed.has_value() == (bucket.type == at::kByte);
        if (same_grid && is_trained == bucket.trained && parameter.is_buffer == is_buffer && same_storage)
          entries.push_back(entry);
      }
      if (entries.empty()) return;
      Communicator& data = groups.Get(grid == GridKind::kDense ? "dp-cp" : "edp");
      const char* replicas = grid == GridKind::kDense ? "replica" : "ereplica";
      if (bucket.trained && groups.Has(replicas)) bucket.replicas = &groups.Get(replicas);
      buckets_.push_back(std::make_unique<Bucket>(layer.name, std::move(entries), data, bucket));
    };
    for (const BucketOptions& bucket : {trained, frozen, packed}) {
      add(GridKind::kDense, bucket, false);
      add(GridKind::kExpert, bucket, false);
    }
    add(GridKind::kDense, buffers, true);
  }
}

StageLayer Model::MakeStageLayer(const LayerGraph& graph, const Layer& layer, LayerOptions options) {
  const DecoderSpec* decoder = DecoderOf(layer.spec);
  if (decoder != nullptr && decoder->experts) {
    options.sums = &router_sums_[layer.name];
    options.expected = &expected_rows_[layer.name];
  }
  StageLayer running{.layer = MakeLayer(layer, *weights_, parallel_, options),
                     .uses = BucketsOf(layer.name),
                     .owns = BucketsOf(layer.name)};
  if (UsesEmbedding(layer)) {
    Bucket* embedding = BucketsOf(graph.layers[EmbeddingIndex(graph)].name).front();
    running.uses.push_back(embedding);
    if (head_has_copy_ && &layer == FirstUserOfEmbedding(graph)) running.owns.push_back(embedding);
  }
  return running;
}

std::vector<Bucket*> Model::BucketsOf(const std::string& layer) {
  std::vector<Bucket*> found;
  for (const auto& bucket : buckets_) {
    if (bucket->layer() == layer) found.push_back(bucket.get());
  }
  TRIREME_CHECK(!found.empty() || weights_->EntriesOf(layer).empty())
      << "no bucket of layer " << layer << " on this rank";
  return found;
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

void Model::SetBatches(PassBatch& batches) {
  for (const auto& stage : stages_) stage->SetBatches(&batches);
}

void Model::Infer(PassBatch& batch, Communicator& pipeline) {
  at::Tensor value;
  for (int stage = 0; stage < placement_.stages(); ++stage) {
    const StageSite site = placement_.SiteOf(stage);
    if (site.rank != pipeline.rank()) continue;
    RunningStage& running = *stages_[site.chunk];
    const int before = stage == 0 ? site.rank : placement_.SiteOf(stage - 1).rank;
    if (before != site.rank) {
      value = running.EmptyInput(batch.input(0));
      Receive(value, pipeline, before);
    }
    value = running.Infer(batch.at(0), value);
    if (placement_.IsLast(stage)) return;
    const int next = placement_.SiteOf(stage + 1).rank;
    if (next != site.rank) Send(value, pipeline, next);
  }
}

}  // namespace trireme
