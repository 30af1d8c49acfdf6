// Gemms in memory that accumulate in fp32, whatever the operands' dtype: what weight gradients and the blocks
// of attention need, and what ATen does not offer for bf16. Uses the math library inside libtorch if it
// exports its entry points (MKL does); otherwise ATen, with one more rounding in bf16.
#pragma once

#include <cstdint>

#include "ops/cpu/simd.h"

namespace trireme {

// Row-major with `stride` elements between rows; transposed: read as its transpose.
template <typename T>
struct Operand {
  const T* data;
  int64_t stride;
  bool transposed = false;
};

struct MatMulShape {
  int64_t m = 0, n = 0, k = 0;  // [m, k] · [k, n]
  int64_t stride = 0;           // of the result's rows
  bool add = false;             // accumulates into the result; otherwise overwrites it
};

void MatMul(const Operand<float>& a, const Operand<float>& b, const MatMulShape& shape, float* result);
void MatMul(const Operand<cpu::Bf16>& a, const Operand<cpu::Bf16>& b, const MatMulShape& shape, float* result);

}  // namespace trireme
