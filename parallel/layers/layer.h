// A layer that runs: from a graph's specification and this rank's weights to work on activations. Autograd
// carries the way back; weights sum their own gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "ops/dropout.h"
#include "parallel/context/ulysses.h"
#include "parallel/experts/dispatch.h"
#include "parallel/experts/router_losses.h"
#include "parallel/graph/graph.h"
#include "parallel/layers/key_value_cache.h"
#include "parallel/layers/weights.h"
#include "parallel/pass/pass_context.h"
#include "parallel/tensor/regions.h"

namespace trireme {

class RunningLayer {
 public:
  virtual ~RunningLayer() = default;
  // x: [tokens (or this rank's share), hidden]. The first layer takes an empty tensor that requires a
  // gradient; the head gives what its backward pass begins at, see head.h.
  virtual at::Tensor Forward(const at::Tensor& x, PassContext& pass) const = 0;

  // Whether its forward pass may run a second time in the backward pass instead of keeping activations.
  virtual bool can_run_again() const { return false; }
  // Whether its forward pass already adds to weight gradients, as a loss in one pass does.
  virtual bool makes_gradients_forward() const { return false; }
  virtual bool is_head() const { return false; }
};

// The groups that layers work in.
struct LayerParallel {
  TensorParallel tensor;
  ExpertParallel experts;
  ContextParallel context;
};

struct LayerOptions {
  bool recompute_selected =
      false;                   // what is large and cheap is made again: attention core, norms, activation
  double adapter_dropout = 0;  // of the inputs of low-rank pairs
  double hidden_dropout = 0;   // of the embedding and of what attention and mlp add
  RouterOptions router = {};
  RouterSums* sums = nullptr;  // of this layer; outlives it
};

// What is dropped of the hidden values at `place` (a layer's name and a part of it), between tensor-parallel
// blocks; nullptr: nothing.
std::shared_ptr<const Dropout> HiddenDropout(const std::string& place, double rate, PassContext& pass,
                                             const TensorParallel& parallel);

// Weights and `parallel` outlive the layer.
std::unique_ptr<RunningLayer> MakeLayer(const Layer& layer, const Weights& weights,
                                        const LayerParallel& parallel, const LayerOptions& options = {});

}  // namespace trireme
