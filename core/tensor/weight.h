// Weight: a parameter's local part on this rank, with the place where its gradient is summed. Operators add
// to the gradient themselves, in fp32, so that autograd only carries activations; who made the memory is not
// said here.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>

namespace trireme {

struct Weight {
  std::string name;     // as declared, "layers.3.attention.qkv.weight"
  at::Tensor value;     // in the type of the computation, local shape
  at::Tensor gradient;  // fp32, the same shape, summed over micro batches; undefined: not trained

  // The gradient counts as zero, whatever an earlier step left in its memory. The first to add to it writes over
  // that, which spares a pass over all memory in each step.
  mutable bool stale = false;

  bool trained() const { return gradient.defined(); }
  // What to add to.
  at::Tensor gradient_sum() const {
    if (TakeStale()) gradient.zero_();
    return gradient;
  }
  // Whether the caller, who is about to give every element, shall overwrite instead of add.
  bool TakeStale() const { return std::exchange(stale, false); }
};

}  // namespace trireme
