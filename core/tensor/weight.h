// Weight: a parameter's local part on this rank, with the place where its gradient is summed. Operators add
// to the gradient themselves, in fp32, so that autograd only carries activations; who made the memory is not
// said here.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace trireme {

struct Weight {
  std::string name;     // as declared, "layers.3.attention.qkv.weight"
  at::Tensor value;     // in the type of the computation, local shape
  at::Tensor gradient;  // fp32, the same shape, summed over micro batches; undefined: not trained

  bool trained() const { return gradient.defined(); }
};

}  // namespace trireme
