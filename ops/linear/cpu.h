// y = x Wᵀ (+ b) for rows of generation, where weights are read once for a few rows: bound by memory, not by
// arithmetic. Sums are in fp32, and a row's result does not depend on how many others there are, bit for
// bit. Training's gemms are libtorch's (linear.h).
#pragma once

#include <cstdint>

#include "ops/cpu/simd.h"

namespace trireme::cpu {

struct LinearShape {
  int64_t rows = 0, in = 0, out = 0;
};

// The rows as the loops read them: fp32, [rows, in]; of bf16 the even and the odd elements of a vector apart.
void PackRows(const Bf16* x, const LinearShape& shape, Rows rows, float* packed);

// Whether this processor multiplies bf16 matrices in hardware, so that for many rows a math library is faster.
bool HasBf16Products();

// Columns [begin, end) of y: [rows, out]. weight: [out, in], bias: [out] or nullptr.
void LinearColumns(const float* packed, const float* weight, const float* bias, const LinearShape& shape, Rows columns,
                   float* y);
void LinearColumns(const float* packed, const Bf16* weight, const Bf16* bias, const LinearShape& shape, Rows columns,
                   Bf16* y);

// The same sums in fp32, as scores of queries against keys: `shape.out` is the stride of y's rows.
void DotColumns(const float* packed, const float* keys, const LinearShape& shape, Rows columns, float* y);
void DotColumns(const float* packed, const Bf16* keys, const LinearShape& shape, Rows columns, float* y);

}  // namespace trireme::cpu
