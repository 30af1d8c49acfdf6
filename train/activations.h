// What the forward pass of one micro batch leaves behind for the backward pass, layer by layer, in bytes,
// from sizes alone. docs/training.md shows the formula.
#pragma once

#include <cstdint>

#include "core/config.pb.h"
#include "parallel/graph/graph.h"

namespace trireme {

struct ActivationShape {
  int64_t tokens = 0;         // of a micro batch on a rank: all within tensor-parallel blocks
  int64_t tensor = 1;         // ranks that share each layer's matrices
  bool sequence = true;       // between the blocks each of them holds its share of the tokens
  int64_t expert_tensor = 1;  // ranks that share each expert's matrices
  int64_t element_bytes = 2;
};

// From the layer's forward pass to its weight gradient. Experts count as if all got as many tokens.
int64_t KeptActivationBytes(const Layer& layer, Recompute recompute, const ActivationShape& shape);

// What its backward pass makes again, on top of that.
int64_t RemadeActivationBytes(const Layer& layer, Recompute recompute, const ActivationShape& shape);

// The largest piece of the logits that is there at a time, of the head only: 2^23 of them or one token's, in
// fp32, and where the computation is narrower once more in its own type.
int64_t LogitsBytes(const Layer& layer, const ActivationShape& shape);

}  // namespace trireme
