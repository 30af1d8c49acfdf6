// Attention over sequences that lie on several ranks, and over packed documents: Ulysses inside, a ring
// outside, either of them of one rank where it is not wanted. With autograd.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "ops/heads.h"
#include "parallel/context/ulysses.h"

namespace trireme {

// heads: of this rank's tokens; values may be of another size than keys. Returns [rows · local length, heads
// · value_dim], as the output projection reads it; zero where a token is padding. Collective over
// parallel.group. `parallel` outlives the backward pass.
at::Tensor ContextAttention(const Heads& heads, double scale, std::shared_ptr<const ContextPlan> plan,
                            const ContextParallel& parallel);

}  // namespace trireme
