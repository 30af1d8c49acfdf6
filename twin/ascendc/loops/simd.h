// Building blocks of the loops: one attribute that compiles a function for each generation of x86, and lanes:
// how an element is loaded into its compute type and rounded back.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "twin/ascendc/include/ascendc/types.h"
#include "twin/ascendc/loops/half.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define TWIN_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TWIN_CLONES
#endif
#define TWIN_INLINE inline __attribute__((always_inline))

namespace twin::ascendc {

// Copies of a struct do not vectorise; copies of its bits do.
template <typename T>
struct Lane {
  using Raw = T;
  using Wide = T;
  static TWIN_INLINE Wide Get(Raw x) { return x; }
  static TWIN_INLINE Raw Put(Wide x) { return x; }
};
template <>
struct Lane<half> {
  using Raw = uint16_t;
  using Wide = float;
  static TWIN_INLINE float Get(uint16_t x) { return HalfToFloat(x); }
  static TWIN_INLINE uint16_t Put(float x) { return FloatToHalf(x); }
};
template <typename T>
using RawOf = typename Lane<T>::Raw;
template <typename T>
using WideOf = typename Lane<T>::Wide;

template <typename T>
TWIN_INLINE RawOf<T>* Raw(T* p) {
  return reinterpret_cast<RawOf<T>*>(p);
}
template <typename T>
TWIN_INLINE const RawOf<T>* Raw(const T* p) {
  return reinterpret_cast<const RawOf<T>*>(p);
}

// Halves are widened one chunk at a time, computed in float, and rounded back.
constexpr size_t kPiece = 512;
template <typename... Sources, typename Op>
TWIN_INLINE void MapHalves(half* dst, size_t n, Op op, const Sources*... sources) {
  float wide[sizeof...(Sources)][kPiece];
  for (size_t at = 0; at < n; at += kPiece) {
    const size_t count = n - at < kPiece ? n - at : kPiece;
    size_t k = 0;
    (WidenHalves(wide[k++], Raw(sources) + at, count), ...);
    op(wide, count);
    NarrowHalves(Raw(dst) + at, wide[0], count);
  }
}

template <typename T, typename Op>
TWIN_INLINE void Map(T* dst, const T* a, size_t n, Op op) {
  if constexpr (std::is_same_v<T, half>) {
    MapHalves(
        dst, n,
        [op](auto& x, size_t count) __attribute__((always_inline)) {
#pragma omp simd
          for (size_t i = 0; i < count; ++i) x[0][i] = op(x[0][i]);
        },
        a);
  } else {
#pragma omp simd
    for (size_t i = 0; i < n; ++i) dst[i] = op(a[i]);
  }
}

template <typename T, typename Op>
TWIN_INLINE void Map2(T* dst, const T* a, const T* b, size_t n, Op op) {
  if constexpr (std::is_same_v<T, half>) {
    MapHalves(
        dst, n,
        [op](auto& x, size_t count) __attribute__((always_inline)) {
#pragma omp simd
          for (size_t i = 0; i < count; ++i) x[0][i] = op(x[0][i], x[1][i]);
        },
        a, b);
  } else {
#pragma omp simd
    for (size_t i = 0; i < n; ++i) dst[i] = op(a[i], b[i]);
  }
}

// dst is also an operand.
template <typename T, typename Op>
TWIN_INLINE void Map3(T* dst, const T* a, const T* b, size_t n, Op op) {
  if constexpr (std::is_same_v<T, half>) {
    MapHalves(
        dst, n,
        [op](auto& x, size_t count) __attribute__((always_inline)) {
#pragma omp simd
          for (size_t i = 0; i < count; ++i) x[0][i] = op(x[0][i], x[1][i], x[2][i]);
        },
        dst, a, b);
  } else {
#pragma omp simd
    for (size_t i = 0; i < n; ++i) dst[i] = op(dst[i], a[i], b[i]);
  }
}

// Within 1 ulp except for denormals; overflows to infinity, NaN stays.
TWIN_INLINE float ExpOf(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 · 2²³: adding it rounds to an integer
  float limited = x > 89.0f ? 89.0f : x;
  limited = limited < -104.0f ? -104.0f : limited;
  const float shifted = limited * 1.44269504f + kRound, whole = shifted - kRound;
  const float r = (limited - whole * 0.693359375f) - whole * -2.12194440e-4f;
  float p = 1.98756915e-4f;
  p = p * r + 1.39819994e-3f;
  p = p * r + 8.33345205e-3f;
  p = p * r + 4.16657962e-2f;
  p = p * r + 1.66666657e-1f;
  p = p * r + 0.5f;
  p = p * r * r + r + 1.0f;
  // 2^whole in two steps, since one alone reaches neither the denormals nor infinity.
  const int32_t power = static_cast<int32_t>(std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRound));
  const int32_t first = power >> 1, second = power - first;
  return p * std::bit_cast<float>((first + 127) << 23) * std::bit_cast<float>((second + 127) << 23);
}

}  // namespace twin::ascendc
