// Gated DeltaNet, in place of attention, with its output projection up to the sum over tensor ranks: projections, a
// short convolution, the gated delta rule over this rank's heads, a norm gated by z.
//
// Heads stand in groups: a key head with the value heads that it serves. Tensor ranks have some groups each. The state
// passes along the sequence, so context ranks exchange tokens for groups; with fewer groups than ranks, groups are cut
// into several, each with a copy of the key head, and ranks that still get none compute zeros.
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
  // What this context rank computes: all tokens of some groups.
  struct Groups {
    at::Tensor mixed;
    at::Tensor conv;                 // [groups · channels, taps]
    at::Tensor log_rate, time_bias;  // [value heads of the groups]
  };

  Projected Project(const LinearInput& x, PassContext& pass) const;
  // q | k | v of this rank as files order them, [n, channels], to [n, groups, q | k | v].
  at::Tensor ByGroup(const at::Tensor& channels) const;
  // Each group in `copies_` parts, then groups of zeros. x: [n, groups, …] with the two parts of a key head where
  // `keys` says so, then for each of the widths one part per value head.
  at::Tensor Spread(const at::Tensor& x, bool keys, const std::vector<int64_t>& widths) const;
  Groups MyGroups(const at::Tensor& mixed, const std::shared_ptr<const ContextPlan>& plan) const;
  // Queries, keys and values of the convolved channels; decays and betas of the groups' tokens.
  DeltaInputs InputsOf(const at::Tensor& convolved, const Groups& groups) const;
  // Both: [tokens, groups, key_dim | …] to [tokens, value heads · value_dim].
  at::Tensor Train(const at::Tensor& mixed, PassContext& pass) const;
  at::Tensor Generate(const at::Tensor& mixed, KeyValueCache& cache) const;

  const std::string layer_;
  const DeltaSpec spec_;
  const double norm_eps_;
  const ContextParallel& context_;
  const int64_t groups_;   // key heads of this rank
  const int64_t values_;   // value heads of each
  const int64_t copies_;
  const int64_t padding_;  // groups of zeros
  const Projection qkvz_, ba_;         // as files fuse them, group by group, or
  const Projection qkv_, z_, b_, a_;  // one by one
  const Weight& conv_;       // [channels, 1, taps]
  const Weight& log_rate_;   // [value heads]
  const Weight& time_bias_;  // [value heads]
  const Weight& norm_;       // [value_dim]
  const Projection output_;  // [hidden, value heads · value_dim]
};

}  // namespace trireme
