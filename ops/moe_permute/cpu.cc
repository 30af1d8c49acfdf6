#include "ops/moe_permute/cpu.h"

#include <algorithm>
#include <cstring>

namespace trireme::cpu {
namespace {

constexpr int64_t kColumns = 128;  // summed at a time, in registers and the nearest cache

template <typename T>
TRIREME_INLINE void SumBody(const T* rows, int64_t size, const Positions& positions, Rows tokens, T* out) {
  for (int64_t token = tokens.begin; token < tokens.end; ++token) {
    const int64_t* at = positions.rows + token * positions.k;
    for (int64_t begin = 0; begin < size; begin += kColumns) {
      const int64_t columns = std::min(kColumns, size - begin);
      float sums[kColumns] = {};
      for (int64_t copy = 0; copy < positions.copies; ++copy) {
        for (int64_t i = 0; i < positions.k; ++i) {
          if (at[i] < 0) continue;
          const T* row = rows + (copy * positions.copy_rows + at[i]) * size + begin;
#pragma omp simd
          for (int64_t column = 0; column < columns; ++column) sums[column] += Widen(row[column]);
        }
      }
      T* y = out + token * size + begin;
#pragma omp simd
      for (int64_t column = 0; column < columns; ++column) y[column] = NarrowResult<T>(sums[column]);
    }
  }
}

}  // namespace

void SpreadRows(const void* x, int64_t row_bytes, const Positions& positions, Rows tokens, void* out) {
  for (int64_t token = tokens.begin; token < tokens.end; ++token) {
    const auto* from = static_cast<const char*>(x) + token * row_bytes;
    for (int64_t i = 0; i < positions.k; ++i) {
      const int64_t place = positions.rows[token * positions.k + i];
      if (place >= 0) std::memcpy(static_cast<char*>(out) + place * row_bytes, from, row_bytes);
    }
  }
}

TRIREME_CLONES void SumRows(const float* rows, int64_t size, const Positions& positions, Rows tokens, float* out) {
  SumBody(rows, size, positions, tokens, out);
}
TRIREME_CLONES void SumRows(const Bf16* rows, int64_t size, const Positions& positions, Rows tokens, Bf16* out) {
  SumBody(rows, size, positions, tokens, out);
}

}  // namespace trireme::cpu
