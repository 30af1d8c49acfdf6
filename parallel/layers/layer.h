// A layer that runs: from a graph's specification and this rank's weights to computation on activations.
// Autograd runs the backward pass; weights accumulate their own gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "ops/dropout_add/dropout_add.h"
#include "parallel/context/ulysses.h"
#include "parallel/experts/dispatch.h"
#include "parallel/experts/router_losses.h"
#include "parallel/graph/graph.h"
#include "parallel/layers/key_value_cache.h"
#include "parallel/layers/weights.h"
#include "parallel/pass/pass_context.h"
#include "parallel/tensor/regions.h"

namespace trireme {

class KeptFeatures;  // parallel/layers/kept_features.h

class RunningLayer {
 public:
  virtual ~RunningLayer() = default;
  // x: [tokens (or this rank's shard), hidden]. The first layer gets an empty tensor that requires a
  // gradient; the head returns the root of the backward pass, see head.h.
  virtual at::Tensor Forward(const at::Tensor& x, PassContext& pass) const = 0;

  // Whether its forward pass may be recomputed in the backward pass instead of saving activations.
  virtual bool can_run_again() const { return false; }
  // Whether its forward pass already accumulates weight gradients, as a fused loss does.
  virtual bool makes_gradients_forward() const { return false; }
  virtual bool is_head() const { return false; }
};

// The process groups that layers use.
struct LayerParallel {
  TensorParallel tensor;
  ExpertParallel experts;
  ContextParallel context;
};

struct LayerOptions {
  bool recompute_selected = false;  // recompute what is large and cheap: attention core, norms, activation
  double adapter_dropout = 0;       // of the inputs of LoRA adapters
  double hidden_dropout = 0;        // of the embedding and of the outputs of attention and mlp
  double neftune_alpha = 0;         // of the noise on embeddings
  RouterOptions router = {};
  KeptFeatures* kept_features =
      nullptr;                 // of a vision tower that is not trained; nullptr: none are kept. Outlives the layer
  RouterSums* sums = nullptr;  // of this layer; outlives it
  ExpectedRows* expected = nullptr;  // likewise
};

// The dropout of the hidden values at `place` (a layer's name and a part of it), between tensor-parallel
// blocks; nullptr: none.
std::shared_ptr<const Dropout> HiddenDropout(const std::string& place, double rate, PassContext& pass,
                                             const TensorParallel& parallel);

// Weights and `parallel` outlive the layer.
std::unique_ptr<RunningLayer> MakeLayer(const Layer& layer, const Weights& weights, const LayerParallel& parallel,
                                        const LayerOptions& options = {});

}  // namespace trireme
