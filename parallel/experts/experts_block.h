// The experts of a layer on this rank's share of the tokens: route, dispatch, two grouped products, combine.
// Knows nothing of attention, norms and shared experts.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/tensor/weight.h"
#include "ops/linear.h"
#include "parallel/experts/dispatch.h"
#include "parallel/graph/specs.h"

namespace trireme {

struct ExpertWeights {           // of this rank
  const Weight& router;          // [experts, hidden]
  const Weight& gate_up;         // [experts / ep, 2 · ffn / etp, hidden]
  const Weight& down;            // [experts / ep, hidden, ffn / etp]
  const Weight* bias = nullptr;  // [experts] fp32: for the choice only
};

class ExpertsBlock {
 public:
  // `parallel` and the weights outlive the block. recompute: the activation is made again in the backward
  // pass.
  ExpertsBlock(const ExpertsSpec& spec, const ExpertWeights& weights, const ExpertParallel& parallel,
               bool recompute)
      : spec_(spec), weights_(weights), parallel_(parallel), recompute_(recompute) {}

  // Collective over the group. x: [tokens, hidden]; real: [tokens] bool, false where a token is padding and
  // meets no expert. The result: [tokens, hidden].
  at::Tensor Forward(const LinearInput& x, const at::Tensor& real) const;

 private:
  at::Tensor Mlps(const at::Tensor& rows, const at::Tensor& weights, const GroupEnds& ends) const;

  const ExpertsSpec spec_;
  const ExpertWeights weights_;
  const ExpertParallel& parallel_;
  const bool recompute_;
};

}  // namespace trireme
