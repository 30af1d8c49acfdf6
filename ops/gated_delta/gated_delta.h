// The gated delta rule of linear attention (Gated DeltaNet). Each value head keeps a state S [key_dim, value_dim]; a
// token decays it by exp(log_decay), replaces the part beta of what S holds under its key by its value, and reads S by
// its query:
//   S = exp(log_decay) S;  S += k (beta (v - kᵀS))ᵀ;  out = Sᵀ q / sqrt(key_dim)
// Queries and keys are divided by their lengths first. Computed in fp32. The projections, the convolution before it and
// the norm after it are elsewhere.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "ops/gated_delta/delta_chunks.h"

namespace trireme {

// A query and a key head serves value_heads / key_heads adjacent value heads.
struct DeltaInputs {
  at::Tensor query, key;  // [tokens, key_heads, key_dim]
  at::Tensor value;       // [tokens, value_heads, value_dim]
  at::Tensor log_decay;   // [tokens, value_heads] fp32, at most 0
  at::Tensor beta;        // [tokens, value_heads] fp32
};

// [tokens, value_heads, value_dim] in the values' dtype; zero for tokens of no run. With autograd. Every run begins
// with an empty state.
at::Tensor GatedDelta(const DeltaInputs& inputs, std::shared_ptr<const DeltaChunks> chunks);

// The same from states [runs, value_heads, key_dim, value_dim] fp32, which become those after the runs. Forward only.
at::Tensor GatedDeltaOnward(const DeltaInputs& inputs, const DeltaChunks& chunks, const at::Tensor& states);

}  // namespace trireme
