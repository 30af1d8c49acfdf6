// A bias on rows, and its gradient: plain loops, without torch. ATen's own ways take as long as the gemm beside them in
// bf16.
#pragma once

#include <cstdint>

#include "ops/cpu/simd.h"

namespace trireme::cpu {

inline constexpr int64_t kSlab = 512;  // columns that are summed at a time

// y[row] += bias for these rows of [any, columns].
void AddToRows(const float* bias, int64_t columns, Rows rows, float* y);
void AddToRows(const Bf16* bias, int64_t columns, Rows rows, Bf16* y);

// sums[c] += Σ x[row][c] over all rows, for columns of the slab from `begin`: at most kSlab. Rows are summed 64 at a
// time, and then those sums, so that errors grow slowly.
struct SlabShape {
  int64_t rows = 0, columns = 0, begin = 0;
};
void AddColumnSums(const float* x, const SlabShape& shape, float* sums);
void AddColumnSums(const Bf16* x, const SlabShape& shape, float* sums);

}  // namespace trireme::cpu
