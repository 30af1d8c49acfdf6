#include "ops/cpu/cross_entropy.h"

#include <algorithm>
#include <limits>

namespace trireme::cpu {
namespace {

// Columns are read from memory once: the second look at a tile finds it in the nearest cache.
constexpr int64_t kTile = 2048;

TRIREME_INLINE bool Holds(const LogitRows& in, int64_t row) {
  const int64_t column = in.labels[row] - in.first_token;
  return column >= 0 && column < in.columns;
}

template <typename T>
TRIREME_INLINE void StatisticsBody(const T* logits, const LogitRows& in, Rows rows, const LogitSums& out) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const T* line = logits + row * in.stride;
    float largest = -std::numeric_limits<float>::infinity(), sum = 0;
    for (int64_t begin = 0; begin < in.columns; begin += kTile) {
      const int64_t end = std::min(begin + kTile, in.columns);
      float tile_largest = largest;
#pragma omp simd reduction(max : tile_largest)
      for (int64_t i = begin; i < end; ++i) {
        const float x = Widen(line[i]);
        tile_largest = x > tile_largest ? x : tile_largest;
      }
      float tile_sum = 0;
#pragma omp simd reduction(+ : tile_sum)
      for (int64_t i = begin; i < end; ++i) tile_sum += ExpUpTo88(Widen(line[i]) - tile_largest);
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
TRIREME_INLINE void GradientBody(T* logits, const LogitRows& in, Rows rows, const float* log_sum_exp,
                                 float scale) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    T* line = logits + row * in.stride;
    const float shift = log_sum_exp[row];
    const int64_t label = in.labels[row] - in.first_token;
    const float picked = Holds(in, row) ? (ExpUpTo88(Widen(line[label]) - shift) - 1.0f) * scale : 0.0f;
#pragma omp simd
    for (int64_t i = 0; i < in.columns; ++i)
      line[i] = NarrowResult<T>(ExpUpTo88(Widen(line[i]) - shift) * scale);
    std::fill(line + in.columns, line + in.stride, T{});
    if (Holds(in, row)) line[label] = Narrow<T>(picked);
  }
}

}  // namespace

TRIREME_CLONES void LogitStatistics(const float* logits, const LogitRows& in, Rows rows,
                                    const LogitSums& out) {
  StatisticsBody(logits, in, rows, out);
}
TRIREME_CLONES void LogitStatistics(const Bf16* logits, const LogitRows& in, Rows rows,
                                    const LogitSums& out) {
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
