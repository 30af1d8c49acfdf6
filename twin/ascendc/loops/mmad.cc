// Products of fractals. Operands are widened to fp32 once, A in rows and B in columns of 16, then sums of a few rows
// and 16 or 32 columns stay in registers while k runs. Sums are added to C one product at a time in order of k, so any
// split of k into several calls gives the same bits; except of bfloat16 where the processor has matrix units
// (mmad_tiles.cc).
#include <algorithm>
#include <cstring>
#include <memory>

#include "twin/ascendc/include/ascendc/cube_loops.h"
#include "twin/ascendc/loops/mmad_tiles.h"
#include "twin/ascendc/loops/simd.h"

namespace twin::ascendc::loops {
namespace {

constexpr uint32_t kSide = 16;  // of a fractal of C

template <typename T>
constexpr uint32_t kC0 = 32 / sizeof(T);

// Sixteen floats: a register where there are such, else several.
typedef float Lanes __attribute__((vector_size(64), aligned(4)));

struct Widened {
  std::unique_ptr<float[]> memory;
  size_t size = 0;
  float* Of(size_t wanted) {
    if (wanted > size) memory = std::make_unique<float[]>(wanted), size = wanted;
    return memory.get();
  }
};
thread_local Widened of_a, of_b;

TWIN_INLINE void Widen(float* dst, const half* src, size_t n) { WidenHalves(dst, Raw(src), n); }
TWIN_INLINE void Widen(float* dst, const bfloat16_t* src, size_t n) {
  const auto* bits = reinterpret_cast<const uint16_t*>(src);
#pragma omp simd
  for (size_t i = 0; i < n; ++i) dst[i] = Bf16ToFloat(bits[i]);
}
TWIN_INLINE void Widen(float* dst, const float* src, size_t n) { std::memcpy(dst, src, n * sizeof(float)); }

// A: [fractals_m * 16, fractals_k * C0].
template <typename T>
TWIN_INLINE void WidenRows(float* dst, const T* a, const ProductShape& s) {
  const size_t depth = size_t{s.fractals_k} * kC0<T>;
  for (size_t row = 0; row < size_t{s.fractals_m} * kSide; ++row) {
    for (size_t k = 0; k < s.fractals_k; ++k)
      Widen(dst + row * depth + k * kC0<T>, a + ((row / kSide * s.fractals_k + k) * kSide + row % kSide) * kC0<T>,
            kC0<T>);
  }
}

// B: [fractals_n, fractals_k * C0, 16].
template <typename T>
TWIN_INLINE void WidenColumns(float* dst, const T* b, const ProductShape& s) {
  float fractal[kSide * kC0<T>];
  for (size_t k = 0; k < s.fractals_k; ++k) {
    for (size_t n = 0; n < s.fractals_n; ++n) {
      Widen(fractal, b + (k * s.fractals_n + n) * kSide * kC0<T>, kSide * kC0<T>);
      float* to = dst + (n * s.fractals_k + k) * kC0<T> * kSide;
      for (uint32_t i = 0; i < kC0<T>; ++i) {
#pragma omp simd
        for (uint32_t lane = 0; lane < kSide; ++lane) to[i * kSide + lane] = fractal[lane * kC0<T> + i];
      }
    }
  }
}

// Rows of A, and adjacent columns of 16 of B and C.
template <int kRows, int kColumns>
TWIN_INLINE void Tile(float* c, size_t c_column, const float* a, size_t a_row, const float* b, size_t b_column,
                      size_t k) {
  Lanes sum[kRows][kColumns];
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kColumns; ++j) std::memcpy(&sum[i][j], c + j * c_column + i * kSide, sizeof(Lanes));
  for (size_t at = 0; at < k; ++at) {
    Lanes columns[kColumns];
    for (int j = 0; j < kColumns; ++j) std::memcpy(&columns[j], b + j * b_column + at * kSide, sizeof(Lanes));
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kColumns; ++j) sum[i][j] += columns[j] * a[i * a_row + at];
  }
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kColumns; ++j) std::memcpy(c + j * c_column + i * kSide, &sum[i][j], sizeof(Lanes));
}

template <typename T, int kRows>
TWIN_INLINE void InTiles(float* c, const T* a, const T* b, const ProductShape& s) {
  const size_t depth = size_t{s.fractals_k} * kC0<T>, rows = size_t{s.fractals_m} * kSide;
  float *wide_a = of_a.Of(rows * depth), *wide_b = of_b.Of(s.fractals_n * depth * kSide);
  WidenRows(wide_a, a, s);
  WidenColumns(wide_b, b, s);
  const size_t c_column = rows * kSide, b_column = depth * kSide;
  for (size_t n = 0; n < s.fractals_n; n += 2) {
    for (size_t row = 0; row < rows; row += kRows) {
      float* to = c + n * c_column + row * kSide;
      const float *left = wide_a + row * depth, *right = wide_b + n * b_column;
      if (n + 1 < s.fractals_n) {
        Tile<kRows, 2>(to, c_column, left, depth, right, b_column, s.k);
      } else {
        Tile<kRows, 1>(to, c_column, left, depth, right, b_column, s.k);
      }
    }
  }
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define TWIN_WIDE_TARGET __attribute__((target("arch=x86-64-v4,prefer-vector-width=512")))
#define TWIN_HAS_WIDE 1
bool IsWide() {
  static const bool is = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                         __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0;
  return is;
}
#define TWIN_DEFINE_WIDE(T) \
  TWIN_WIDE_TARGET void Wide(float* c, const T* a, const T* b, const ProductShape& s) { InTiles<T, 8>(c, a, b, s); }
TWIN_DEFINE_WIDE(half)
TWIN_DEFINE_WIDE(bfloat16_t)
TWIN_DEFINE_WIDE(float)
#else
bool IsWide() { return false; }
template <typename T>
void Wide(float*, const T*, const T*, const ProductShape&) {}
#endif

}  // namespace

#define TWIN_DEFINE_PLAIN(T) \
  TWIN_CLONES static void Plain(float* c, const T* a, const T* b, const ProductShape& s) { InTiles<T, 4>(c, a, b, s); }
TWIN_DEFINE_PLAIN(half)
TWIN_DEFINE_PLAIN(bfloat16_t)
TWIN_DEFINE_PLAIN(float)

void Multiply(float* c, const half* a, const half* b, const ProductShape& s) {
  IsWide() ? Wide(c, a, b, s) : Plain(c, a, b, s);
}
void Multiply(float* c, const float* a, const float* b, const ProductShape& s) {
  IsWide() ? Wide(c, a, b, s) : Plain(c, a, b, s);
}
void Multiply(float* c, const bfloat16_t* a, const bfloat16_t* b, const ProductShape& s) {
  if (HasTiles())
    return MultiplyTiles(c, reinterpret_cast<const uint16_t*>(a), reinterpret_cast<const uint16_t*>(b), s);
  IsWide() ? Wide(c, a, b, s) : Plain(c, a, b, s);
}

TWIN_CLONES void Multiply(int32_t* c, const int8_t* a, const int8_t* b, const ProductShape& s) {
  constexpr uint32_t kDepth = kC0<int8_t>;
  for (size_t row = 0; row < size_t{s.fractals_m} * kSide; ++row) {
    for (size_t column = 0; column < size_t{s.fractals_n} * kSide; ++column) {
      int32_t sum = 0;
      for (size_t k = 0; k < s.k; k += kDepth) {
        const int8_t* left = a + ((row / kSide * s.fractals_k + k / kDepth) * kSide + row % kSide) * kDepth;
        const int8_t* right = b + ((k / kDepth * s.fractals_n + column / kSide) * kSide + column % kSide) * kDepth;
        const size_t count = std::min<size_t>(kDepth, s.k - k);
        for (size_t i = 0; i < count; ++i) sum += left[i] * right[i];
      }
      c[(column / kSide * s.fractals_m * kSide + row) * kSide + column % kSide] += sum;
    }
  }
}

}  // namespace twin::ascendc::loops
