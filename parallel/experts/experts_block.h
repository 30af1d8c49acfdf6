// The experts of a layer on this rank's share of the tokens: route, dispatch, two grouped GEMMs, combine.
// Knows nothing of attention, norms and shared experts.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "core/tensor/weight.h"
#include "ops/linear/linear.h"
#include "ops/low_rank/low_rank.h"
#include "parallel/experts/dispatch.h"
#include "parallel/graph/specs.h"

namespace trireme {

struct ExpertAdapters {  // their LoRA adapters; nullptr: none
  const LowRankWeights* router = nullptr;
  const LowRankWeights* gate_up = nullptr;
  const LowRankWeights* down = nullptr;
};

struct ExpertWeights {                   // of this rank
  const Weight& router;                  // [experts, hidden]
  const Weight& gate_up;                 // [experts / ep, 2 · ffn / etp, hidden]
  const Weight& down;                    // [experts / ep, hidden, ffn / etp]
  const Weight* bias = nullptr;          // [experts] fp32: affects the choice only
  const Weight* router_bias = nullptr;   // [experts], of the logits; nullptr, as the following: the family has none
  const Weight* gate_up_bias = nullptr;  // [experts / ep, 2 · ffn / etp]
  const Weight* down_bias = nullptr;     // [experts / ep, hidden]
  ExpertAdapters adapters = {};
};

// How the block's tokens read the adapters.
struct ExpertAdapterInputs {
  std::shared_ptr<const Dropout> router = {}, gate_up = {},
                                 down = {};        // keyed by the tokens' identities; nullptr: none
  std::shared_ptr<const AdapterSlots> slots = {};  // nullptr: adapters are one model's
};

struct ExpertsOptions {
  bool recompute = false;  // the activation is recomputed in the backward pass
  RouterOptions router = {};
  RouterSums* sums = nullptr;        // counts choices; outlives the block
  ExpectedRows* expected = nullptr;  // of the exchange, for passes that expect its sizes; outlives the block
};

// Several adapters, each for its own tokens; for generation.
struct ExpertRowAdapters {
  at::Tensor adapter_of;  // [tokens] int64 in host memory: index into the lists below; -1: none
  std::vector<const LowRankWeights*> router, gate_up, down;  // by adapter; nullptr: it has none here
  bool on_experts = false;  // some adapter is on experts, too; the same on all ranks of the group
};

// Work that needs no experts and overlaps with the transfer of tokens to them and back.
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

  // Collective over the group. x: [tokens, hidden]; padding goes to no expert. Returns [tokens, hidden].
  at::Tensor Forward(const LinearInput& x, const RouterTokens& tokens, const ExpertAdapterInputs& inputs = {},
                     const BesideExperts& beside = {}, const ExpertRowAdapters* adapters = nullptr) const;

 private:
  at::Tensor Logits(const LinearInput& x, const ExpertAdapterInputs& inputs, const ExpertRowAdapters* adapters) const;
  // The part of `chosen` that fits into the experts' capacity, and the rows to pad to; 0: no padding.
  WithinCapacity Limited(const at::Tensor& chosen, const at::Tensor& weights, const RouterTokens& tokens) const;
  void Count(const Dispatch& way, int64_t choices, const RouterTokens& tokens) const;
  // `inputs` are of the rows.
  at::Tensor Mlps(const at::Tensor& rows, const at::Tensor& weights, const GroupEnds& ends,
                  const ExpertAdapterInputs& inputs) const;
  // From gate and up to the input of `down`, scaled by the tokens' weights.
  at::Tensor Activated(const at::Tensor& gate_up, const at::Tensor& weights) const;
  at::Tensor ActivatedAgain(const at::Tensor& gate_up, const at::Tensor& weights) const;
  at::Tensor WithGateUpBias(const at::Tensor& gate_up, const GroupEnds& ends) const;
  at::Tensor WithDownBias(const at::Tensor& rows, const at::Tensor& weights, const GroupEnds& ends) const;
  at::Tensor MlpsWithRowAdapters(const at::Tensor& rows, const at::Tensor& weights, const GroupEnds& ends,
                                 const ExpertRowAdapters& adapters, const AdapterRows& adapter_rows) const;

  const ExpertsSpec spec_;
  const ExpertWeights weights_;
  const ExpertParallel& parallel_;
  const ExpertsOptions options_;
};

}  // namespace trireme
