// Ring attention: keys and values pass from rank to rank while each rank attends to those it holds; partial
// results are merged by log-sum-exp. In the backward pass the gradients of keys and values travel with them
// and finish on the rank that owns them. No autograd here.
#pragma once

#include "core/tensor/weight.h"
#include "ops/attention/attention_tiles.h"
#include "parallel/context/ulysses.h"

namespace trireme {

struct AttentionRule {
  double scale = 1;               // of the scores
  int64_t window = 0;             // keys that a query attends to at most, its own among them; 0: any number
  double soft_cap = 0;            // a score s is cap · tanh(s / cap); 0: none
  const Weight* sinks = nullptr;  // [heads of this rank] (ops/attention/sinks.h), applied after the ring; nullptr: none
};

// heads: contiguous, this ring position's tokens. Collective over the ring. In a ring of one this is
// AttendPacked, in its dtypes and layouts, or with sinks AttendPackedWithSums.
PartialAttention RingAttention(const Heads& heads, const AttentionRule& rule, const ContextPlan& plan,
                               const ContextParallel& parallel);

// Gradients with the layout of the heads; in fp32, in a ring of one in any dtype.
Heads RingAttentionBackward(const Heads& heads, const AttentionRule& rule, const ContextPlan& plan,
                            const AttendedQueries& queries, const ContextParallel& parallel);

}  // namespace trireme
