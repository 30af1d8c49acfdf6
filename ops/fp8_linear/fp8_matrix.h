// A rank's matrix in e4m3 where it lies in memory, and what an implementation of fp8_linear multiplies it with.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/tensor/packed_weight.h"
#include "ops/fp8_linear/split_contraction.h"

namespace trireme {

struct Fp8Matrix {
  at::Tensor codes;        // [out, in] uint8; undefined: to be cast from `source`, under these scales
  at::Tensor scales;       // [out] fp32
  at::Tensor source = {};  // [out, in] in the type of the computation, of a weight that is stored so
  bool stored = false;     // the codes are the weight's own, not made for one product
};

struct Fp8Case {
  const at::Tensor& rows;  // of x, or of the gradient of y
  const Fp8Matrix& matrix;
  const at::Tensor bias = {};
  const SplitContraction::Largest largest = {};
};

// All codes as the rank's matrix has them, then all scales.
inline Fp8Matrix Fp8MatrixOf(const PackedWeight& weight) {
  const Shape& shape = weight.shape();
  const int64_t size = shape[0] * static_cast<int64_t>(sizeof(float));
  return {.codes = weight.bytes.narrow(0, 0, shape[0] * shape[1]).view({shape[0], shape[1]}),
          .scales = weight.bytes.narrow(0, weight.parts().bytes - size, size).view(at::kFloat),
          .stored = true};
}

}  // namespace trireme
