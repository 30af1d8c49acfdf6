// Attention sinks: each head has a score of its own that takes its part in the softmax and brings no value. They are
// applied once, to finished attention, so that no kernel and no ring knows of them. No autograd here: parallel/context
// has it, and given the log-sum-exp with the sinks the gradients of queries, keys and values need nothing more.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/attention/attention_tiles.h"

namespace trireme {

// sinks: [kv_heads, group] in any dtype. The output shrinks by the sink's part of the softmax, which joins the
// log-sum-exp. A query that has attended to no key keeps its zeros.
void ApplySinks(const PartialAttention& partial, const at::Tensor& sinks);

// The sinks' gradient, [kv_heads, group] fp32, from the queries' state with the sinks applied.
at::Tensor SinksGradient(const AttendedQueries& queries, const at::Tensor& sinks);

}  // namespace trireme
