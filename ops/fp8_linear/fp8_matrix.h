// A rank's matrix in e4m3 where it lies in memory, and what an implementation of fp8_linear multiplies it with.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/tensor/packed_weight.h"
#include "ops/fp8_linear/split_contraction.h"

namespace trireme {

struct Fp8Case {
  const at::Tensor& rows;  // of x, or of the gradient of y
  const PackedWeight& weight;
  const at::Tensor bias = {};
  const SplitContraction::Largest largest = {};
};

// [out, in] uint8
inline at::Tensor Fp8CodesOf(const PackedWeight& weight) {
  const Shape& shape = weight.shape();
  return weight.bytes.narrow(0, 0, shape[0] * shape[1]).view({shape[0], shape[1]});
}

// [out] fp32: the last bytes.
inline at::Tensor Fp8ScalesOf(const PackedWeight& weight) {
  const int64_t size = weight.shape()[0] * static_cast<int64_t>(sizeof(float));
  return weight.bytes.narrow(0, weight.parts().bytes - size, size).view(at::kFloat);
}

}  // namespace trireme
