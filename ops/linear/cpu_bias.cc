#include "ops/linear/cpu_bias.h"

#include <algorithm>

#include "ops/cpu/lanes.h"

namespace trireme::cpu {
namespace {

constexpr int64_t kRowsAtOnce = 64;

template <typename T>
TRIREME_INLINE void AddToRowsBody(const T* bias, int64_t columns, Rows rows, T* y) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    T* to = y + row * columns;
    Map(columns, to, [](float a, float b) { return a + b; }, to, bias);
  }
}

// part += the row's elements; of bf16 the even ones are in the first half, the odd ones in the second.
TRIREME_INLINE void AddRow(const float* row, int64_t width, float* part) {
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) part[i] += row[i];
}
TRIREME_INLINE void AddRow(const Bf16* row, int64_t width, float* part) {
  const PairWord* pairs = PairsOf(row);
  float* odd = part + kSlab / 2;
#pragma omp simd
  for (int64_t i = 0; i < width / 2; ++i) {
    part[i] += Even(pairs[i]);
    odd[i] += Odd(pairs[i]);
  }
  if (width % 2 != 0) part[width / 2] += Widen(row[width - 1]);
}

TRIREME_INLINE void AddTo(float* sums, const float* total, int64_t width, const float*) {
  for (int64_t i = 0; i < width; ++i) sums[i] += total[i];
}
TRIREME_INLINE void AddTo(float* sums, const float* total, int64_t width, const Bf16*) {
  for (int64_t i = 0; i < width; ++i) sums[i] += total[(i % 2 == 0 ? 0 : kSlab / 2) + i / 2];
}

template <typename T>
TRIREME_INLINE void ColumnSumsBody(const T* x, const SlabShape& shape, float* sums) {
  const int64_t width = std::min(kSlab, shape.columns - shape.begin);
  float total[kSlab] = {};
  for (int64_t first = 0; first < shape.rows; first += kRowsAtOnce) {
    float part[kSlab] = {};
    const int64_t end = std::min(first + kRowsAtOnce, shape.rows);
    for (int64_t row = first; row < end; ++row) AddRow(x + row * shape.columns + shape.begin, width, part);
    AddRow(part, kSlab, total);
  }
  AddTo(sums + shape.begin, total, width, x);
}

}  // namespace

TRIREME_CLONES void AddToRows(const float* bias, int64_t columns, Rows rows, float* y) {
  AddToRowsBody(bias, columns, rows, y);
}
TRIREME_CLONES void AddToRows(const Bf16* bias, int64_t columns, Rows rows, Bf16* y) {
  AddToRowsBody(bias, columns, rows, y);
}
TRIREME_CLONES void AddColumnSums(const float* x, const SlabShape& shape, float* sums) {
  ColumnSumsBody(x, shape, sums);
}
TRIREME_CLONES void AddColumnSums(const Bf16* x, const SlabShape& shape, float* sums) {
  ColumnSumsBody(x, shape, sums);
}

}  // namespace trireme::cpu
