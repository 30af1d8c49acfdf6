// Model: this rank's part of a layer graph under a layout: weights, their buckets, and the stages that run
// them. Only assembles; reads no file, trains nothing.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/comm/communicator_set.h"
#include "parallel/executor/stage.h"
#include "parallel/graph/partition.h"
#include "parallel/layers/kept_features.h"
#include "parallel/layers/weights.h"
#include "parallel/schedule/placement.h"
#include "parallel/sharding/bucket.h"

namespace trireme {

struct ModelLayout {
  const Grids& grids;
  int rank = 0;  // in the world
  StagePlacement placement;
  std::vector<StageLayers> stages;  // layers of each pipeline stage
};

enum class Keep {  // which activations are saved for the backward pass
  kAll,
  kSelected,     // all but those that are large and cheap to recompute
  kLayerInputs,  // each layer is recomputed as a whole
};

struct ModelOptions {
  at::ScalarType type = at::kFloat;
  at::Device device = at::kCPU;
  int zero = 1;
  bool sequence = true;
  Keep keep = Keep::kAll;
  int recompute_every = 1;           // with kLayerInputs: one layer in so many, the first decoder layer and so on
  bool offload_activations = false;  // with kLayerInputs: they wait in host memory
  int ulysses = 1;                   // of the context ranks; the rest is a ring
  bool trained = true;               // false: values only, for inference
  Masters masters = Masters::kFp32;
  bool offload_parameters = false;  // at zero 3 shares of them wait in host memory
  double hidden_dropout = 0;
  double neftune_alpha = 0;
  int64_t kept_feature_bytes = 0;  // of host memory for what a vision tower that is not trained made of images
  RouterOptions router = {};
};

// Whether recomputation of one layer in `every` means the graph's layer `index`; `embedding`: the embedding's index.
// Those before it always are.
constexpr bool IsRecomputed(size_t index, size_t embedding, int every) {
  return index <= embedding || (index - embedding - 1) % static_cast<size_t>(every) == 0;
}

class Model {
 public:
  // `groups` outlives the model.
  Model(const LayerGraph& graph, const ModelLayout& layout, const CommunicatorSet& groups, const ModelOptions& options);

  std::vector<Bucket*> buckets();    // in the order of the forward pass
  std::vector<StageWork*> chunks();  // this rank's stages
  // Where the embedding is on two ranks, for a tied head or for multi-token prediction: the group of the two;
  // nullptr where it is not, and on ranks that do not hold it.
  Communicator* tied_embedding() const { return tied_embedding_; }

  // Router statistics since they were last cleared, by layer, for this rank's layers with experts.
  std::map<std::string, RouterSums>& router_sums() { return router_sums_; }
  // What these layers' exchanges of tokens are expected to hold.
  std::map<std::string, ExpectedRows>& expected_rows() { return expected_rows_; }
  // What a vision tower made of images; nullptr: it is not kept.
  KeptFeatures* kept_features() { return kept_features_.get(); }
  Weights& weights() { return *weights_; }

  // The micro batches of the next run. They outlive it.
  void SetBatches(PassBatch& batches);
  // One forward pass of a batch's only micro batch, stage after stage, with messages between them. Collective
  // over `pipeline`. The result is in the batch, on the head's ranks.
  void Infer(PassBatch& batch, Communicator& pipeline);

 private:
  std::vector<Layer> LayersOf(const LayerGraph& graph, const ModelLayout& layout) const;
  void Pack(int rank, at::ScalarType type);
  void MakeBuckets(const std::vector<Layer>& layers, const CommunicatorSet& groups, const ModelOptions& options);
  StageLayer MakeStageLayer(const LayerGraph& graph, const Layer& layer, LayerOptions options);
  std::vector<Bucket*> BucketsOf(const std::string& layer);

  const StagePlacement placement_;
  bool head_has_copy_ = false;  // the head's stage has a copy of the embedding, which another stage owns
  LayerParallel parallel_;
  Communicator* tied_embedding_ = nullptr;
  std::unique_ptr<Weights> weights_;
  std::unique_ptr<KeptFeatures> kept_features_;
  std::map<std::string, RouterSums> router_sums_;
  std::map<std::string, ExpectedRows> expected_rows_;
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::vector<std::unique_ptr<RunningStage>> stages_;
};

// Whether two ranks of the pipeline hold the embedding.
bool EmbeddingIsSplit(const LayerGraph& graph, const StagePlacement& placement);

}  // namespace trireme
