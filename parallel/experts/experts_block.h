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

struct ExpertsOptions {
  bool recompute = false;  // the activation is made again in the backward pass
  RouterOptions router = {};
  RouterSums* sums = nullptr;  // where choices are counted; outlives the block
};

// Work that needs no experts, done while tokens travel to them and back.
struct BesideExperts {
  std::function<void()> on_the_way;
  std::function<void()> on_the_way_back;
};

class ExpertsBlock {
 public:
  // `parallel` and the weights outlive the block.
  ExpertsBlock(const ExpertsSpec& spec, const ExpertWeights& weights, const ExpertParallel& parallel,
               const ExpertsOptions& options)
      : spec_(spec), weights_(weights), parallel_(parallel), options_(options) {}

  // Collective over the group. x: [tokens, hidden]; padding meets no expert. The result: [tokens, hidden].
  at::Tensor Forward(const LinearInput& x, const RouterTokens& tokens,
                     const BesideExperts& beside = {}) const;

 private:
  std::shared_ptr<const Dispatch> WayOf(const Routing& routing, const RouterTokens& tokens) const;
  void Count(const Dispatch& way, int64_t choices, const RouterTokens& tokens) const;
  at::Tensor Mlps(const at::Tensor& rows, const at::Tensor& weights, const GroupEnds& ends) const;

  const ExpertsSpec spec_;
  const ExpertWeights weights_;
  const ExpertParallel& parallel_;
  const ExpertsOptions options_;
};

}  // namespace trireme
