// The tensor-parallel mlp of a dense layer, or of shared experts: gate and up, activation, down.
#pragma once

#include <string>

#include "ops/linear/linear.h"
#include "parallel/graph/specs.h"
#include "parallel/layers/projection.h"
#include "parallel/tensor/regions.h"

namespace trireme {

class MlpBlock {
 public:
  // `role`: of its weights in the layer, "mlp" or "shared". recompute: the activation is recomputed in the
  // backward pass.
  MlpBlock(const std::string& role, const Projection::Place& place, const TensorParallel& parallel, bool recompute,
           MlpSpec::Activation activation = MlpSpec::Activation::kSilu);

  // x: all tokens, inside the block; the result is outside it.
  at::Tensor Forward(const LinearInput& x, PassContext& pass) const { return Down(Up(x, pass), pass); }
  // The same in two parts; in between are this rank's hidden units.
  LinearInput Up(const LinearInput& x, PassContext& pass) const;
  at::Tensor Down(const LinearInput& activated, PassContext& pass) const;

 private:
  const TensorParallel& parallel_;
  const bool recompute_;
  const MlpSpec::Activation activation_;
  const Projection gate_up_;  // [2 · ffn of this rank, hidden]
  const Weight* gate_up_bias_;
  const Projection down_;  // [hidden, ffn of this rank]
  const Weight* down_bias_;
};

}  // namespace trireme
