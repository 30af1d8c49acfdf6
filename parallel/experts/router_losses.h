// The router's auxiliary losses and the statistics of its choices. The balance loss steers tokens towards
// underused experts, the z-loss keeps logits small. Both act in the backward pass only: the layer's output
// does not change. ops/router/router.h chooses the experts.
//
// With N the tokens of the whole batch, k choices of E experts, and T(t) the set of tokens that token t is
// balanced with, a layer adds
//
//   balance · E / (k · N) · Σ_t Σ_e share(t, e) · f(T(t), e)     f: how often a token of the set chooses e
//   z / N · Σ_t logsumexp(logits of t)²
//
// so that every token counts once, whichever micro batch it is in, and perfectly even loads have a balance
// loss of 1. Only f is summed over ranks, and it has no gradient. `pooled` matches transformers: f over all
// layers, the loss their mean, not divided by k.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <vector>

#include "core/comm/communicator.h"
#include "ops/router/router.h"

namespace trireme {

enum class BalanceOver { kNothing, kSequence, kBatch, kGlobal, kPooled };
enum class ExpertOverflow { kKeep, kDrop, kPad };

struct RouterOptions {
  BalanceOver balance = BalanceOver::kNothing;
  double balance_coefficient = 0;
  double z_coefficient = 0;
  ExpertOverflow overflow = ExpertOverflow::kKeep;
  double capacity = 1;  // of an expert, as a multiple of the even load
  bool all_gather = false;
  int64_t layers = 1;  // layers with experts in the whole model
};

// Each layer's choices in one micro batch, for `pooled`: complete after the last layer. Keyed by the router's
// weight, so that a recomputed layer counts once.
using RouterPool = std::map<const Weight*, at::Tensor>;

// This rank's share of a micro batch's tokens, as routers see them.
struct RouterTokens {
  at::Tensor real;      // [tokens] bool
  at::Tensor sequence;  // [tokens] int64, -1 for padding
  at::Tensor order;     // [tokens] int64
  int64_t sequences = 0;
  double scale = 0;       // 1 / tokens of the whole batch
  int64_t in_batch = -1;  // real tokens of the micro batch, over all ranks that share it; -1: only the device knows
  RouterPool* pool = nullptr;
  bool generates = false;     // generation: neither losses nor capacities
  bool expects_rows = false;  // as in PassOptions
};

// Statistics of one rank and layer since they were last read.
struct RouterSums {     // tensors on the device, so that nobody waits for them; undefined: nothing yet
  at::Tensor rows;      // [experts] int64: rows sent by this rank's tokens
  at::Tensor tokens;    // [1] int64
  at::Tensor received;  // [1] int64: rows for this rank's experts
  at::Tensor numbers;   // [3] fp32: entropy, balance loss, z-loss, each a sum over tokens
  int64_t choices = 0;  // of each token: what was not sent was dropped
};

// The ranks that share a micro batch's tokens, and those of all micro batches processed at the same time.
struct RouterGroups {
  Communicator* batch = nullptr;  // tp-cp
  Communicator* stage = nullptr;  // tp-cp-dp, if the balance is global
};

// Returns the routing's weights unchanged; their backward pass adds the losses' gradients. Collective over
// the group that f is summed over if there is a balance loss. `router` is the layer's weight.
at::Tensor WithRouterLosses(const Routing& routing, const at::Tensor& logits, const Weight& router,
                            const RouterTokens& tokens, const RouterOptions& options, const RouterGroups& groups,
                            RouterSums* sums);

// `chosen` with -1 where choices of larger weight fill an expert's capacity, counted over the ranks of the
// micro batch. Collective over them. `capacity`: rows per expert.
struct WithinCapacity {
  at::Tensor chosen;
  int64_t capacity = 0;
};
WithinCapacity DropOverflow(const at::Tensor& chosen, const at::Tensor& weights, const RouterTokens& tokens,
                            const RouterOptions& options, int64_t experts, Communicator& batch);

}  // namespace trireme
