// The tensor-parallel mlp of a dense layer, and of experts that every token meets: gate and up, activation,
// down.
#pragma once

#include <string>

#include "ops/linear.h"
#include "parallel/layers/weights.h"
#include "parallel/tensor/regions.h"

namespace trireme {

class MlpBlock {
 public:
  // `role`: where its weights are, such as "layers.3.mlp". recompute: the activation is made again in the
  // backward pass.
  MlpBlock(const std::string& role, const Weights& weights, const TensorParallel& parallel, bool recompute);

  // x: all tokens, inside the block; the result is outside it.
  at::Tensor Forward(const LinearInput& x) const { return Down(Up(x)); }
  // The same in two parts, with the hidden units of this rank between them.
  LinearInput Up(const LinearInput& x) const;
  at::Tensor Down(const LinearInput& activated) const;

 private:
  const TensorParallel& parallel_;
  const bool recompute_;
  const Weight& gate_up_;  // [2 · ffn of this rank, hidden]
  const Weight* gate_up_bias_;
  const Weight& down_;  // [hidden, ffn of this rank]
  const Weight* down_bias_;
};

}  // namespace trireme
