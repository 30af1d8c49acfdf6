// The gated delta rule over documents that are split across context ranks, each rank its own tokens: states pass from
// rank to rank, not tokens. Each rank finds out what its segments do to any state, S' = M S + B; all ranks learn of
// all, and each computes the states before its own segments. The backward pass is the same from the other end. With
// autograd.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "ops/gated_delta/gated_delta.h"
#include "parallel/context/segments.h"
#include "parallel/context/ulysses.h"

namespace trireme {

// inputs: of this rank's tokens. Returns [tokens, value_heads, value_dim]: zero for tokens outside of plan.chains.
// Collective over parallel.group, as is its backward pass, if there are chains; `parallel` outlives that.
at::Tensor GatedDeltaAcross(const DeltaInputs& inputs, std::shared_ptr<const SegmentPlan> plan,
                            const ContextParallel& parallel);

// The tokens before this rank's segments, as plan.borders counts them: of x [tokens, channels]. Collective likewise.
at::Tensor BorderTokens(const at::Tensor& x, std::shared_ptr<const SegmentPlan> plan, const ContextParallel& parallel);

}  // namespace trireme
