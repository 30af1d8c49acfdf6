// What a router is trained by beside the model's loss, and what is counted of its choices. A balance loss
// draws tokens towards experts that get few, a z-loss keeps logits small. Both act in the backward pass only:
// what the layer gives does not change. How experts are chosen is ops/router.h.
//
// With N the tokens of the whole batch, k choices of E experts, and T(t) the set of tokens that token t is
// looked at with, a layer adds
//
//   balance · E / (k · N) · Σ_t Σ_e share(t, e) · f(T(t), e)     f: how often the set's tokens choose e, a
//   token z / N · Σ_t logsumexp(logits of t)²
//
// so that every token counts once, in whatever micro batch it stands, and 1 is the balance loss of even
// loads. Only f is a sum over ranks, and it has no gradient. `pooled` is transformers' own: f over all
// layers, the loss their mean, not divided by k.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <vector>

#include "core/comm/communicator.h"
#include "ops/router.h"

namespace trireme {

enum class BalanceOver { kNothing, kSequence, kBatch, kGlobal, kPooled };
enum class ExpertOverflow { kKeep, kDrop, kPad };

struct RouterOptions {
  BalanceOver balance = BalanceOver::kNothing;
  double balance_coefficient = 0;
  double z_coefficient = 0;
  ExpertOverflow overflow = ExpertOverflow::kKeep;
  double capacity = 1;  // of an expert, as a multiple of even loads
  bool all_gather = false;
  int64_t layers = 1;  // with experts, in the whole model
};

// Choices of each layer over one micro batch, for `pooled`: complete when the last layer is through. By the
// router's weight, so that a layer that runs again counts once.
using RouterPool = std::map<const Weight*, at::Tensor>;

// This rank's share of a micro batch's tokens, as routers see them.
struct RouterTokens {
  at::Tensor real;      // [tokens] bool
  at::Tensor sequence;  // [tokens] int64, -1 for padding
  at::Tensor order;     // [tokens] int64
  int64_t sequences = 0;
  double scale = 0;  // 1 / tokens of the whole batch
  RouterPool* pool = nullptr;
  bool generates = false;  // tokens are drawn, not trained: neither losses nor capacities
};

// What one rank saw in one layer since it was last asked.
struct RouterSums {
  std::vector<int64_t> rows;  // [experts] that this rank's tokens sent
  int64_t tokens = 0;
  int64_t dropped = 0;   // choices beyond a capacity
  int64_t received = 0;  // rows for this rank's experts
  at::Tensor numbers;    // [3] fp32 on the device: entropy, balance loss, z-loss, each a sum over tokens
};

// The ranks that share a micro batch's tokens, and those of all micro batches that are worked on at a time.
struct RouterGroups {
  Communicator* batch = nullptr;  // tp-cp
  Communicator* stage = nullptr;  // tp-cp-dp, where the balance is global
};

// The routing's weights as they are, with the losses' gradients behind them. Collective over the group that f
// is summed over, where there is a balance loss. `router` is the layer's weight.
at::Tensor WithRouterLosses(const Routing& routing, const at::Tensor& logits, const Weight& router,
                            const RouterTokens& tokens, const RouterOptions& options,
                            const RouterGroups& groups, RouterSums* sums);

// `chosen` with -1 where an expert's capacity is used up by choices of larger weight, counted over the ranks
// of the micro batch. Collective over them. `capacity`: rows an expert takes.
struct WithinCapacity {
  at::Tensor chosen;
  int64_t capacity = 0;
};
WithinCapacity DropOverflow(const at::Tensor& chosen, const at::Tensor& weights, const RouterTokens& tokens,
                            const RouterOptions& options, int64_t experts, Communicator& batch);

}  // namespace trireme
