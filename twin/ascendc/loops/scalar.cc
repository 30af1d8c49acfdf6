// Functions of a tensor and a number.
#include <algorithm>

#include "twin/ascendc/include/ascendc/loops.h"
#include "twin/ascendc/loops/simd.h"

namespace twin::ascendc::loops {

#define TWIN_DEFINE(name, T, expression)                                                                 \
  TWIN_CLONES void name(T* dst, const T* a, T scalar, size_t n) {                                        \
    using W = WideOf<T>;                                                                                 \
    const W s = static_cast<W>(scalar);                                                                  \
    Map(dst, a, n, [s](W x) __attribute__((always_inline)) -> W { return static_cast<W>(expression); }); \
  }
#define TWIN_DEFINE_ALL(name, floating, integer) \
  TWIN_DEFINE(name, float, floating)             \
  TWIN_DEFINE(name, half, floating)              \
  TWIN_DEFINE(name, int16_t, integer)            \
  TWIN_DEFINE(name, int32_t, integer)

TWIN_DEFINE_ALL(Adds, x + s, static_cast<uint32_t>(x) + static_cast<uint32_t>(s))
TWIN_DEFINE_ALL(Muls, x* s, static_cast<uint32_t>(x) * static_cast<uint32_t>(s))
TWIN_DEFINE_ALL(Maxs, x > s || x != x ? x : s, x > s ? x : s)
TWIN_DEFINE_ALL(Mins, x < s || x != x ? x : s, x < s ? x : s)
TWIN_DEFINE(LeakyRelu, float, x >= 0 ? x : x * s)
TWIN_DEFINE(LeakyRelu, half, x >= 0 ? x : x * s)

// A shift by the type's width or more leaves zero, or the sign.
#define TWIN_DEFINE_SHIFTS(T)                                                                              \
  TWIN_DEFINE(ShiftLeft, T, static_cast<uint64_t>(s) >= sizeof(T) * 8 ? 0 : static_cast<uint32_t>(x) << s) \
  TWIN_CLONES void ShiftRight(T* dst, const T* a, T scalar, bool rounds, size_t n) {                       \
    const uint64_t s = std::min<uint64_t>(static_cast<uint64_t>(scalar), sizeof(T) * 8 - 1);               \
    const int64_t half = rounds && s > 0 ? int64_t{1} << (s - 1) : 0;                                      \
    for (size_t i = 0; i < n; ++i) dst[i] = static_cast<T>((int64_t{a[i]} + half) >> s);                   \
  }
TWIN_DEFINE_SHIFTS(int16_t)
TWIN_DEFINE_SHIFTS(uint16_t)
TWIN_DEFINE_SHIFTS(int32_t)
TWIN_DEFINE_SHIFTS(uint32_t)

TWIN_CLONES void Axpy(float* dst, const float* a, float s, size_t n) {
  Map3(dst, a, a, n, [s](float d, float x, float) __attribute__((always_inline)) { return d + x * s; });
}
TWIN_CLONES void Axpy(half* dst, const half* a, half scalar, size_t n) {
  const float s = static_cast<float>(scalar);
  Map3(dst, a, a, n, [s](float d, float x, float) __attribute__((always_inline)) { return d + x * s; });
}
void Axpy(float* dst, const half* a, half scalar, size_t n) {
  float wide[kPiece];
  for (size_t at = 0; at < n; at += kPiece) {
    const size_t count = std::min(n - at, kPiece);
    WidenHalves(wide, Raw(a) + at, count);
    Axpy(dst + at, wide, static_cast<float>(scalar), count);
  }
}

}  // namespace twin::ascendc::loops
