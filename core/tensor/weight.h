// Weight: a parameter's local part on this rank, with the buffer in which its gradient accumulates. Operators
// add to the gradient themselves, in fp32, so that autograd only handles activations; who allocated the
// memory is not specified here.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>

#include "core/tensor/packed_weight.h"

namespace trireme {

struct Weight {
  std::string name;     // as declared, "layers.3.attention.qkv.weight"
  at::Tensor value;     // in the type of the computation, local shape; undefined: packed
  at::Tensor gradient;  // fp32, the same shape, summed over micro batches; undefined: not trained

  // The gradient counts as zero, whatever an earlier step left in its memory. The first accumulation
  // overwrites it, which saves a pass over all memory in each step.
  mutable bool stale = false;

  // In place of a value, of a weight that is not trained; what it decodes to is MatrixOf (ops/dequantise).
  std::shared_ptr<PackedWeight> packed = {};

  bool cast_to_fp8 = false;  // its products are in e4m3, to which the value is cast for each of them

  bool trained() const { return gradient.defined(); }
  // The tensor to accumulate into.
  at::Tensor gradient_sum() const {
    if (TakeStale()) gradient.zero_();
    return gradient;
  }
  // Whether the caller, which is about to write every element, should overwrite instead of add.
  bool TakeStale() const { return std::exchange(stale, false); }
};

}  // namespace trireme
