// Ring attention: keys and values pass from rank to rank while each works on those it has; what queries have
// seen is merged by log-sum-exp. In the backward pass the gradients of keys and values travel with them and
// end at home. No autograd here.
#pragma once

#include "ops/attention_tiles.h"
#include "parallel/context/ulysses.h"

namespace trireme {

// heads: contiguous, of this ring position's tokens. Collective over the ring.
SeenAttention RingAttention(const Heads& heads, double scale, const ContextPlan& plan,
                            const ContextParallel& parallel);

// Gradients in fp32, laid out as the heads.
Heads RingAttentionBackward(const Heads& heads, double scale, const ContextPlan& plan,
                            const AttendedQueries& queries, const ContextParallel& parallel);

}  // namespace trireme
