// A block of a layer, described once: the parameters it declares, what it costs to compute, what its forward
// pass saves for the backward pass, and a line of text. A layer is a list of blocks; parameters.h, costs.h,
// activations.h and graph.h's text are sums over them. One file per block in parallel/graph/blocks. Runs
// nothing: parallel/layers does.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "parallel/graph/specs.h"

namespace trireme {

class Declarer;

// Of logits in memory at a time, in the computation's type: on the host what its caches bear, on a GPU some
// thousand tokens, for each chunk reads and writes the whole sum of the weight's gradient.
inline constexpr int64_t kLogitBytes = int64_t{64} << 20, kGpuLogitBytes = int64_t{1280} << 20;

struct ActivationShape {
  int64_t tokens = 0;         // per micro batch and rank, within tensor-parallel blocks
  int64_t tensor = 1;         // ranks that split each layer's matrices
  bool sequence = true;       // between blocks each of them holds its share of the tokens
  int64_t expert_tensor = 1;  // ranks that split each expert's matrices
  double expert_room = 1;     // rows of experts that there is room for, as a multiple of the tokens' choices
  int64_t element_bytes = 2;
  bool qkv_once = false;              // kept after the rotary embedding only, where heads have no norms
  int64_t logit_bytes = kLogitBytes;  // of the logits' chunk

  // Tokens between tensor-parallel blocks.
  int64_t TokensBetween() const { return sequence ? (tokens + tensor - 1) / tensor : tokens; }
  // Rows of a rank's experts for each of the ranks that split their matrices, if all experts get equally many tokens.
  int64_t ExpertRows(int64_t top_k) const {
    return static_cast<int64_t>(expert_room * static_cast<double>(top_k * TokensBetween()));
  }
};

// Elements that one micro batch saves on a rank between the forward pass and the weight gradient, by
// recompute mode.
struct SavedElements {
  int64_t none = 0;
  int64_t selective = 0;
  int64_t full = 0;
  int64_t recomputed = 0;  // what the backward pass recomputes in full mode

  // For a block of which full recomputation saves only `input`, and selective recomputation all but `cheap`.
  static SavedElements Of(int64_t all, int64_t cheap, int64_t input) {
    return {.none = all, .selective = all - cheap, .full = input, .recomputed = all - input};
  }
  void Add(const SavedElements& other) {
    none += other.none;
    selective += other.selective;
    full += other.full;
    recomputed += other.recomputed;
  }
};

// Elements that the operators beside matmuls and attention read and write on a rank for one micro batch: norms with
// their residual sums, rotary embeddings, activations, the loss.
struct MovedElements {
  int64_t forward = 0;
  int64_t backward = 0;
  void Add(const MovedElements& other) {
    forward += other.forward;
    backward += other.backward;
  }
};

class LayerBlock {
 public:
  virtual ~LayerBlock() = default;

  // In the order of the parameters. Refuses sizes that the layout cannot split.
  virtual void Declare(Declarer& declare) const = 0;

  // Parameters that take part in matmuls with a token.
  virtual int64_t MatMulParameters() const { return 0; }
  // Forward pass of one sequence: matmuls without parameters.
  virtual double AttentionFlops(double /*length*/) const { return 0; }
  // The same of a vision tower, for the patches of one frame.
  virtual double FrameFlops(double /*patches*/) const { return 0; }

  virtual SavedElements Saved(const ActivationShape& /*shape*/) const { return {}; }
  // Where a block does not know better: each saved element is written once and read by the next operator; its gradient
  // also.
  virtual MovedElements Moved(const ActivationShape& shape) const {
    const int64_t saved = Saved(shape).none;
    return {.forward = 2 * saved, .backward = 3 * saved};
  }
  // The largest chunk of the logits in memory at a time.
  virtual int64_t LogitsBytes(const ActivationShape& /*shape*/) const { return 0; }

  virtual std::string ToText() const = 0;
};

using LayerBlocks = std::vector<std::unique_ptr<const LayerBlock>>;

// Of a layer, in the order of its forward pass (blocks/blocks.cc).
LayerBlocks BlocksOf(const LayerSpec& spec);

}  // namespace trireme
