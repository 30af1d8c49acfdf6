// A layer that runs: from a graph's specification and this rank's weights to work on activations. Autograd
// carries the way back; weights sum their own gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/dropout.h"
#include "ops/rotary.h"
#include "parallel/context/ulysses.h"
#include "parallel/experts/dispatch.h"
#include "parallel/experts/router_losses.h"
#include "parallel/graph/graph.h"
#include "parallel/layers/key_value_cache.h"
#include "parallel/layers/weights.h"
#include "parallel/tensor/regions.h"

namespace trireme {

// Rows of one length, padded at their ends; what a rank's layers see of a micro batch: with context
// parallelism its share of each row's tokens.
struct MicroBatch {
  int64_t rows = 0;
  int64_t length = 0;
  at::Tensor tokens;         // [rows · length] int64
  at::Tensor labels;         // [rows · length] int64: the token after each one, -100 where it is not trained
  at::Tensor positions;      // [rows · length] int64
  double loss_scale = 1;     // 1 / trained tokens of the whole batch
  at::Tensor real = {};      // [rows · length] bool: false for padding
  double token_scale = 0;    // 1 / tokens of the whole batch, padding not counted
  at::Tensor sequence = {};  // [rows · length] int64: which of the micro batch's documents; -1 for padding
  int64_t sequences = 0;     // documents of the micro batch
  at::Tensor order = {};     // [rows · length] int64: place among all tokens of the micro batch
  std::shared_ptr<const ContextPlan> context = {};  // which tokens see which, here and on other ranks
  // Which tokens of the step these are, the same under any layout; in host memory: [rows · length] int64.
  at::Tensor identities = {};
  std::optional<uint64_t> dropout = {};  // the step's seed for dropout; nothing: nothing is dropped
  bool evaluates = false;  // nothing is differentiated, nothing dropped; the head counts what it gets right
  // Generation: tokens see what the cache keeps of their rows, and the head gives logits in place of a loss.
  KeyValueCache* cache = nullptr;
  at::Tensor wanted = {};  // [any] int64: the tokens whose logits are wanted
  // For each depth of multi-token prediction the same places, with tokens and labels that stand as many
  // further on in the same document; none where nothing of the kind is trained.
  std::vector<MicroBatch> ahead = {};

  // Made once for all layers with the same frequencies.
  const RotaryTable& TableFor(const std::vector<double>& frequencies, double magnitude) const;

  mutable std::map<std::vector<double>, RotaryTable> tables = {};  // by frequencies and, last, magnitude
  mutable RouterPool pool = {};                                    // what routers counted, all layers
};

class RunningLayer {
 public:
  virtual ~RunningLayer() = default;
  // x: [tokens (or this rank's share), hidden]. The first layer takes an empty tensor that requires a
  // gradient, the last gives the loss, a scalar or one for each depth of prediction, or logits; where the
  // batch evaluates, [loss, right predictions].
  virtual at::Tensor Forward(const at::Tensor& x, const MicroBatch& batch) const = 0;

  // Whether its forward pass may run a second time in the backward pass instead of keeping activations.
  virtual bool can_run_again() const { return false; }
  // Whether its forward pass already adds to weight gradients, as a loss in one pass does.
  virtual bool makes_gradients_forward() const { return false; }
  virtual bool gives_loss() const { return false; }
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
std::shared_ptr<const Dropout> HiddenDropout(const std::string& place, double rate, const MicroBatch& batch,
                                             const TensorParallel& parallel);

// Weights and `parallel` outlive the layer.
std::unique_ptr<RunningLayer> MakeLayer(const Layer& layer, const Weights& weights,
                                        const LayerParallel& parallel, const LayerOptions& options = {});

}  // namespace trireme
