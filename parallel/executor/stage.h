// RunningStage: the layers of one chunk of this rank. Works layer by layer in both directions, so that each
// layer's parameters arrive just in time, its gradients are reduced as soon as they are complete, and its
// activations are saved or recomputed.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/tensor/host_room.h"
#include "parallel/executor/stage_work.h"
#include "parallel/layers/layer.h"
#include "parallel/pass/pass_batch.h"
#include "parallel/sharding/bucket.h"

namespace trireme {

struct StageLayer {
  std::unique_ptr<RunningLayer> layer;
  std::vector<Bucket*> uses;  // its parameters, including another layer's (a tied head)
  std::vector<Bucket*> owns;  // those whose gradients are complete after this layer's backward pass
  bool recomputed = true;     // where the stage recomputes layers
  bool differentiated =
      true;  // false, of the first layers only: nothing is learnt before it, so it has no backward pass
};

struct StageOptions {
  bool recompute_layers = false;     // save only the inputs of layers that can be recomputed
  bool offload_inputs = false;       // of layers that are recomputed: they wait in host memory
  bool weights_want_values = false;  // deferred weight gradients need the parameters again
  at::ScalarType type = at::kFloat;  // dtype of the activations
  int64_t hidden = 0;                // hidden size
  int token_parts = 1;               // ranks that share the tokens between layers: tp where sequence parallel
};

class RunningStage : public StageWork {
 public:
  RunningStage(std::vector<StageLayer> layers, const StageOptions& options);

  // The micro batches of the next run, the same on every stage. They outlive it.
  void SetBatches(PassBatch* batches);

  // A forward pass that saves nothing but the pass's key-value cache. x as in Forward.
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
  // One layer's state for one micro batch, between its forward and its backward pass.
  struct Passed {
    at::Tensor input;                    // a leaf, so that each layer is differentiated separately
    at::Tensor output;                   // undefined where it is recomputed
    std::optional<HostRoom::Kept> kept;  // the input, where it waits in host memory
    std::vector<std::function<void()>> put_off;
  };

  at::Tensor InputOf(Passed& passed);  // on the device
  // Runs all layers forward and saves what the backward pass needs.
  at::Tensor PassAndSave(at::Tensor value, PassContext& pass, std::vector<Passed>& passed);
  void Open(size_t layer, int direction);
  void Close(size_t layer);
  void StartReduction(const StageLayer& layer);
  bool Again(const StageLayer& layer) const {
    return options_.recompute_layers && layer.recomputed && layer.layer->can_run_again();
  }

  std::vector<StageLayer> layers_;
  StageOptions options_;
  PassBatch* batches_ = nullptr;
  std::map<int, std::vector<Passed>> passed_;  // by micro batch, one per layer
  HostRoom room_;
  bool reduced_ = false;  // the reduction of the latest weight gradients has started
};

}  // namespace trireme
