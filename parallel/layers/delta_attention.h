// Gated DeltaNet, in place of attention, with its output projection up to the sum over tensor ranks: projections, a
// short convolution, the gated delta rule over this rank's heads, a norm gated by z.
//
// Heads stand in groups: a key head with the value heads that it serves. Tensor ranks have some groups each. The state
// passes along the sequence. In a ring, context ranks keep their tokens and pass states on
// (parallel/context/passed_states.h). Otherwise, and with shared prefixes, they exchange tokens for groups; with fewer
// groups than ranks, groups are cut into several, each with a copy of the key head, and ranks that still get none
// compute zeros.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/gated_delta/gated_delta.h"
#include "ops/linear/linear.h"
#include "parallel/layers/projection.h"

namespace trireme {

class DeltaAttention {
 public:
  DeltaAttention(const AttentionSpec& spec, const Projection::Place& place, const LayerParallel& parallel);

  // x: all tokens, inside a tensor-parallel block. Returns this rank's partial sum, [tokens, hidden].
  at::Tensor Forward(const LinearInput& x, PassContext& pass) const;

 private:
  struct Projected {
    at::Tensor mixed;  // [tokens, groups, key_dim | key_dim | value heads · value_dim | b | a]
    at::Tensor gate;   // z: [tokens, value heads · value_dim]
  };
  // How groups are dealt to context ranks; by default each has all.
  struct Deal {
    int64_t copies = 1;
    int64_t padding = 0;  // groups of zeros
    int64_t ranks = 1, rank = 0;
  };
  // What this context rank computes: all tokens of some groups, or some tokens of all groups.
  struct Groups {
    at::Tensor mixed;
    at::Tensor conv;                 // [groups · channels, taps]
    at::Tensor log_rate, time_bias;  // [value heads of the groups]
    int64_t values = 1;              // value heads of each
  };

  Deal DealTo(const Communicator& group) const;
  Projected Project(const LinearInput& x, PassContext& pass) const;
  // q | k | v of this rank as files order them, [n, channels], to [n, groups, q | k | v].
  at::Tensor ByGroup(const at::Tensor& channels) const;
  // Each group in `deal.copies` parts, then groups of zeros. x: [n, groups, …] with the two parts of a key head where
  // `keys` says so, then for each of the widths one part per value head.
  at::Tensor Spread(const at::Tensor& x, bool keys, const std::vector<int64_t>& widths, const Deal& deal) const;
  // `mixed` is of all groups still.
  Groups MyGroups(const at::Tensor& mixed, const Deal& deal) const;
  // Queries, keys and values of the convolved channels; decays and betas of the groups' tokens.
  DeltaInputs InputsOf(const at::Tensor& convolved, const Groups& groups) const;
  // Both: [tokens, groups, key_dim | …] to [tokens, value heads · value_dim].
  at::Tensor Train(const at::Tensor& mixed, PassContext& pass) const;
  bool PassesStates(const at::Tensor& mixed, const ContextPlan& plan) const;
  at::Tensor TrainByPassing(const at::Tensor& mixed, const ContextPlan& plan) const;
  at::Tensor Generate(const at::Tensor& mixed, KeyValueCache& cache) const;

  const std::string layer_;
  const DeltaSpec spec_;
  const double norm_eps_;
  const ContextParallel& context_;
  const int64_t groups_;              // key heads of this rank
  const int64_t values_;              // value heads of each
  const Deal deal_;                   // where context ranks exchange tokens for groups
  const Projection qkvz_, ba_;        // as files fuse them, group by group, or
  const Projection qkv_, z_, b_, a_;  // one by one
  const Weight& conv_;                // [channels, 1, taps]
  const Weight& log_rate_;            // [value heads]
  const Weight& time_bias_;           // [value heads]
  const Weight& norm_;                // [value_dim]
  const Projection output_;           // [hidden, value heads · value_dim]
};

}  // namespace trireme
