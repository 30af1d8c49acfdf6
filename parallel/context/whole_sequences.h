// For layers that pass a state along the sequence: context ranks that hold some tokens of all heads become ranks that
// hold all tokens, in order, of some heads, and back, whichever tokens the context method deals to whom. One all-to-all
// over the whole context group in each direction; each direction is the other's adjoint.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "parallel/context/ulysses.h"

namespace trireme {

// x: [rows · local length, heads, …], heads divisible by the context ranks; returns [rows · length, heads / ranks, …].
// Collective over parallel.group, as is its backward pass; `parallel` outlives that.
at::Tensor WholeSequences(const at::Tensor& x, std::shared_ptr<const ContextPlan> plan,
                          const ContextParallel& parallel);
// The inverse.
at::Tensor LocalSequences(const at::Tensor& x, std::shared_ptr<const ContextPlan> plan,
                          const ContextParallel& parallel);

}  // namespace trireme
