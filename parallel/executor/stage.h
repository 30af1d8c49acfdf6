// RunningStage: the layers of one chunk of this rank. Works layer by layer, both ways, so that each layer's
// parameters are there just in time, its gradients leave as soon as they are done, and its activations are
// kept or made again.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "parallel/executor/stage_work.h"
#include "parallel/layers/layer.h"
#include "parallel/pass/pass_batch.h"
#include "parallel/sharding/bucket.h"

namespace trireme {

struct StageLayer {
  std::unique_ptr<RunningLayer> layer;
  std::vector<Bucket*> uses;  // its parameters, also those that belong to another layer (a tied head)
  std::vector<Bucket*> owns;  // those whose gradients are done with this layer's backward pass
};

struct StageOptions {
  bool recompute_layers = false;     // keep only the inputs of layers that can run again
  bool weights_want_values = false;  // weight gradients that were put off need parameters again
  at::ScalarType type = at::kFloat;  // of activations
  int64_t hidden = 0;                // their size
  int token_parts = 1;               // ranks that share the tokens between layers: tp where sequence parallel
};

class RunningStage : public StageWork {
 public:
  RunningStage(std::vector<StageLayer> layers, const StageOptions& options);

  // The micro batches of the next run, the same on every stage. They outlive it.
  void SetBatches(PassBatch* batches);

  // A forward pass of its own, of which nothing is saved but what the pass's cache has. x as Forward's.
  at::Tensor Infer(PassContext& pass, const at::Tensor& x);
  at::Tensor EmptyInput(const PassInput& input) const;

  at::Tensor Forward(int micro_batch, const at::Tensor& x) override;
  at::Tensor Backward(int micro_batch, const at::Tensor& gradient, const BackwardOptions& options) override;
  void BackwardWeight(int micro_batch, bool reduce) override;
  void GatherParameters() override;
  void FreeParameters() override;
  void ReduceGradients() override;
  at::Tensor EmptyInput(int micro_batch) override { return EmptyInput(batches_->input(micro_batch)); }
  at::Tensor EmptyGradient(int micro_batch) override { return EmptyInput(micro_batch); }

 private:
  // One layer's part in one micro batch, between its forward and its backward pass.
  struct Passed {
    at::Tensor input;   // a leaf, so that each layer is differentiated by itself
    at::Tensor output;  // undefined where it is computed again
    std::vector<std::function<void()>> put_off;
  };

  // All layers forward, saving what a backward pass needs.
  at::Tensor PassAndSave(at::Tensor value, PassContext& pass, std::vector<Passed>& passed);
  void Open(size_t layer, int direction);
  void Close(size_t layer);
  void StartReduction(const StageLayer& layer);
  bool Again(const StageLayer& layer) const {
    return options_.recompute_layers && layer.layer->can_run_again();
  }

  std::vector<StageLayer> layers_;
  StageOptions options_;
  PassBatch* batches_ = nullptr;
  std::map<int, std::vector<Passed>> passed_;  // by micro batch, one a layer
  bool reduced_ = false;  // the latest weight gradients are on their way
};

}  // namespace trireme
