// Attention over sequences split across several ranks, and over packed documents: Ulysses inside a ring, each
// of size one where it is not used. With autograd.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "ops/attention/attention.h"
#include "ops/qkv_norm_rope/qkv_norm_rope.h"
#include "parallel/context/ring.h"

namespace trireme {

// heads: this rank's tokens; value heads may have another size than key heads. Returns
// [rows · local length, heads · value_dim], the input of the output projection; zero for padding tokens.
// Collective over parallel.group. `parallel` outlives the backward pass.
at::Tensor ContextAttention(const Heads& heads, const AttentionRule& rule, std::shared_ptr<const ContextPlan> plan,
                            const ContextParallel& parallel);

// The same, but on a single context rank only query, key and value are saved (ops/attention/attention.h). Over several
// ranks the output is saved: recomputing it would cost a second round of messages.
Attended ContextAttentionAgain(const Heads& heads, const AttentionRule& rule, std::shared_ptr<const ContextPlan> plan,
                               const ContextParallel& parallel);

}  // namespace trireme
