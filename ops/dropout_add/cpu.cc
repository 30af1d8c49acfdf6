#include "ops/dropout_add/cpu.h"

#include "ops/cpu/lanes.h"
#include "ops/dropout_add/dropout_rule.h"

namespace trireme::cpu {
namespace {

TRIREME_INLINE uint32_t Draw(uint32_t column, uint32_t first, uint32_t second) {
  uint32_t h = column * kColumnStep + first;
  h = (h ^ (h >> kFirstShift)) * kFirstFactor + second;
  h = (h ^ (h >> kSecondShift)) * kSecondFactor;
  h ^= h >> kThirdShift;
  return h >> kUnusedBits;
}

// A row's rule: what remains of an element of a column.
struct RowRule {
  uint32_t first, second, first_column;
  float threshold, scale;

  TRIREME_INLINE float Kept(float x, int64_t column) const {
    const uint32_t draw = Draw(first_column + static_cast<uint32_t>(column), first, second);
    const float value = x * scale;
    return static_cast<float>(static_cast<int32_t>(draw)) >= threshold ? value : 0.0f;
  }
};

TRIREME_INLINE void Row(const float* x, const float* residual, const RowRule& rule, int64_t columns, float* y) {
  if (residual == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < columns; ++i) y[i] = rule.Kept(x[i], i);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < columns; ++i) y[i] = rule.Kept(x[i], i) + residual[i];
  }
}

TRIREME_INLINE void Row(const Bf16* x, const Bf16* residual, const RowRule& rule, int64_t columns, Bf16* y) {
  const PairWord* from = PairsOf(x);
  PairWord* to = PairsOf(y);
  if (residual == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < columns / 2; ++i)
      to[i] = PairWith(rule.Kept(Even(from[i]), 2 * i), rule.Kept(Odd(from[i]), 2 * i + 1));
  } else {
    const PairWord* before = PairsOf(residual);
#pragma omp simd
    for (int64_t i = 0; i < columns / 2; ++i)
      to[i] = PairWith(rule.Kept(Even(from[i]), 2 * i) + Even(before[i]),
                       rule.Kept(Odd(from[i]), 2 * i + 1) + Odd(before[i]));
  }
  if (columns % 2 == 0) return;
  const int64_t last = columns - 1;
  const float before = residual == nullptr ? 0.0f : Widen(residual[last]);
  y[last] = NarrowResult<Bf16>(rule.Kept(Widen(x[last]), last) + before);
}

template <typename T>
TRIREME_INLINE void Body(const T* x, const T* residual, const DropoutRows& in, Rows rows, T* y) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const RowRule rule{.first = in.keys[2 * row],
                       .second = in.keys[2 * row + 1],
                       .first_column = in.first_column,
                       .threshold = in.rate * kDraws,
                       .scale = 1.0f / (1.0f - in.rate)};
    const int64_t offset = row * in.columns;
    Row(x + offset, residual == nullptr ? nullptr : residual + offset, rule, in.columns, y + offset);
  }
}

}  // namespace

TRIREME_CLONES void DropoutAdd(const float* x, const float* residual, const DropoutRows& rule, Rows rows, float* y) {
  Body(x, residual, rule, rows, y);
}
TRIREME_CLONES void DropoutAdd(const Bf16* x, const Bf16* residual, const DropoutRows& rule, Rows rows, Bf16* y) {
  Body(x, residual, rule, rows, y);
}

}  // namespace trireme::cpu
