#include "ops/cross_entropy/cpu.h"

#include <algorithm>
#include <limits>

#include "ops/cpu/lanes.h"

namespace trireme::cpu {
namespace {

// Columns are read from memory once: the second pass over a tile finds it in the nearest cache.
constexpr int64_t kTile = 2048;

TRIREME_INLINE bool Holds(const LogitRows& in, int64_t row) {
  const int64_t column = in.labels[row] - in.first_token;
  return column >= 0 && column < in.columns;
}

TRIREME_INLINE float Larger(float x, float y) { return x > y ? x : y; }

// In several chains, since a single one would wait for its own previous step; two bf16 elements at a time.
TRIREME_INLINE float Largest(const float* x, int64_t count, float at_least) {
  const int64_t quarter = count / 4;
  float a = at_least, b = at_least, c = at_least, d = at_least;
#pragma omp simd reduction(max : a, b, c, d)
  for (int64_t i = 0; i < quarter; ++i) {
    a = Larger(x[i], a);
    b = Larger(x[quarter + i], b);
    c = Larger(x[2 * quarter + i], c);
    d = Larger(x[3 * quarter + i], d);
  }
  float largest = Larger(Larger(a, b), Larger(c, d));
  for (int64_t i = 4 * quarter; i < count; ++i) largest = Larger(x[i], largest);
  return largest;
}
TRIREME_INLINE float Largest(const Bf16* x, int64_t count, float at_least) {
  const int64_t quarter = count / 4;
  const PairWord *lower = PairsOf(x), *upper = lower + quarter;
  float a = at_least, b = at_least, c = at_least, d = at_least;
#pragma omp simd reduction(max : a, b, c, d)
  for (int64_t i = 0; i < quarter; ++i) {
    a = Larger(Even(lower[i]), a);
    b = Larger(Odd(lower[i]), b);
    c = Larger(Even(upper[i]), c);
    d = Larger(Odd(upper[i]), d);
  }
  float largest = Larger(Larger(a, b), Larger(c, d));
  for (int64_t i = 4 * quarter; i < count; ++i) largest = Larger(Widen(x[i]), largest);
  return largest;
}

template <typename T>
TRIREME_INLINE void StatisticsBody(const T* logits, const LogitRows& in, Rows rows, const LogitSums& out) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const T* line = logits + row * in.stride;
    float largest = -std::numeric_limits<float>::infinity(), sum = 0;
    for (int64_t begin = 0; begin < in.columns; begin += kTile) {
      const int64_t end = std::min(begin + kTile, in.columns);
      const float tile_largest = Largest(line + begin, end - begin, largest);
      const auto term = [&](float x) __attribute__((always_inline)) { return QuickExp(x - tile_largest); };
      float tile_sum = SumOf(end - begin, term, line + begin);
      if (begin > 0) tile_sum += sum * ExpUpTo88(largest - tile_largest);
      sum = tile_sum;
      largest = tile_largest;
    }
    out.largest[row] = largest;
    out.sum[row] = sum;
    out.picked[row] = Holds(in, row) ? Widen(line[in.labels[row] - in.first_token]) : 0.0f;
  }
}

template <typename T>
TRIREME_INLINE void GradientBody(T* logits, const LogitRows& in, Rows rows, const float* log_sum_exp, float scale) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    T* line = logits + row * in.stride;
    const float shift = log_sum_exp[row];
    const int64_t label = in.labels[row] - in.first_token;
    const float picked = Holds(in, row) ? (ExpUpTo88(Widen(line[label]) - shift) - 1.0f) * scale : 0.0f;
    const auto gradient = [&](float x) __attribute__((always_inline)) { return QuickExp(x - shift) * scale; };
    Map(in.columns, line, gradient, static_cast<const T*>(line));
    std::fill(line + in.columns, line + in.stride, T{});
    if (Holds(in, row)) line[label] = Narrow<T>(picked);
  }
}

}  // namespace

TRIREME_CLONES void LogitStatistics(const float* logits, const LogitRows& in, Rows rows, const LogitSums& out) {
  StatisticsBody(logits, in, rows, out);
}
TRIREME_CLONES void LogitStatistics(const Bf16* logits, const LogitRows& in, Rows rows, const LogitSums& out) {
  StatisticsBody(logits, in, rows, out);
}
TRIREME_CLONES void LogitsToGradient(float* logits, const LogitRows& in, Rows rows, const float* log_sum_exp,
                                     float scale) {
  GradientBody(logits, in, rows, log_sum_exp, scale);
}
TRIREME_CLONES void LogitsToGradient(Bf16* logits, const LogitRows& in, Rows rows, const float* log_sum_exp,
                                     float scale) {
  GradientBody(logits, in, rows, log_sum_exp, scale);
}

}  // namespace trireme::cpu
