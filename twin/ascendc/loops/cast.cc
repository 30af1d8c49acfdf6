// Casts: rounding by mode, integers saturate, NaN becomes 0.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "twin/ascendc/include/ascendc/loops.h"
#include "twin/ascendc/loops/simd.h"

namespace twin::ascendc::loops {
namespace {

double Rounded(double x, RoundMode mode) {
  switch (mode) {
    case RoundMode::CAST_FLOOR:
      return std::floor(x);
    case RoundMode::CAST_CEIL:
      return std::ceil(x);
    case RoundMode::CAST_ROUND:
      return std::round(x);
    case RoundMode::CAST_TRUNC:
      return std::trunc(x);
    case RoundMode::CAST_ODD: {
      const double down = std::floor(x);
      return down == x ? x : (std::fmod(down, 2.0) != 0 ? down : down + 1);
    }
    case RoundMode::CAST_NONE:
    case RoundMode::CAST_RINT:
      break;
  }
  return std::nearbyint(x);
}

// To a floating type of `fraction` bits whose smallest normal is 2^lowest.
float RoundedTo(float x, int fraction, int lowest, RoundMode mode) {
  if (!std::isfinite(x) || x == 0) return x;
  const int exponent = std::max(std::ilogb(x), lowest) - fraction;
  return static_cast<float>(std::copysign(std::ldexp(Rounded(std::ldexp(x, -exponent), mode), exponent), x));
}

template <typename Int>
Int Saturated(double x) {
  if (std::isnan(x)) return 0;
  if (x <= static_cast<double>(std::numeric_limits<Int>::min())) return std::numeric_limits<Int>::min();
  if (x >= static_cast<double>(std::numeric_limits<Int>::max())) return std::numeric_limits<Int>::max();
  return static_cast<Int>(x);
}

bool Nearest(RoundMode mode) { return mode == RoundMode::CAST_NONE || mode == RoundMode::CAST_RINT; }

template <typename Int, typename From>
void ToInteger(Int* dst, const From* src, RoundMode mode, size_t n) {
  for (size_t i = 0; i < n; ++i) dst[i] = Saturated<Int>(Rounded(static_cast<double>(src[i]), mode));
}

// Wide integers that a float cannot represent are also rounded by mode.
float IntegerToFloat(int64_t x, RoundMode mode) {
  if (Nearest(mode) || std::llabs(x) < (int64_t{1} << 24)) return static_cast<float>(x);
  const int exponent = 63 - __builtin_clzll(static_cast<uint64_t>(std::llabs(x))) - 23;
  const double unit = std::ldexp(1.0, exponent);
  return static_cast<float>(Rounded(static_cast<double>(x) / unit, mode) * unit);
}

template <typename To, typename From>
void Narrow(To* dst, const From* src, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const int64_t x = src[i];
    dst[i] = static_cast<To>(
        std::min<int64_t>(std::max<int64_t>(x, std::numeric_limits<To>::min()), std::numeric_limits<To>::max()));
  }
}

}  // namespace

void Cast(float* dst, const half* src, RoundMode, size_t n) { WidenHalves(dst, Raw(src), n); }
TWIN_CLONES void Cast(float* dst, const bfloat16_t* src, RoundMode, size_t n) {
  const uint16_t* x = reinterpret_cast<const uint16_t*>(src);
#pragma omp simd
  for (size_t i = 0; i < n; ++i) dst[i] = Bf16ToFloat(x[i]);
}
TWIN_CLONES void NearestBf16(uint16_t* dst, const float* src, size_t n) {
#pragma omp simd
  for (size_t i = 0; i < n; ++i) dst[i] = FloatToBf16(src[i]);
}
void Cast(half* dst, const float* src, RoundMode mode, size_t n) {
  if (Nearest(mode)) return NarrowHalves(Raw(dst), src, n);
  for (size_t i = 0; i < n; ++i) dst[i] = half(RoundedTo(src[i], 10, -14, mode));
}
void Cast(bfloat16_t* dst, const float* src, RoundMode mode, size_t n) {
  if (Nearest(mode)) return NearestBf16(reinterpret_cast<uint16_t*>(dst), src, n);
  for (size_t i = 0; i < n; ++i) dst[i] = bfloat16_t(RoundedTo(src[i], 7, -126, mode));
}
// Rounds by mode to integers that a float represents exactly.
template <RoundMode mode>
TWIN_INLINE float WholeOf(float x) {
  if constexpr (mode == RoundMode::CAST_FLOOR) return std::floor(x);
  if constexpr (mode == RoundMode::CAST_CEIL) return std::ceil(x);
  if constexpr (mode == RoundMode::CAST_TRUNC) return std::trunc(x);
  if constexpr (mode == RoundMode::CAST_ROUND) {
    const float whole = std::trunc(x);
    return std::fabs(x - whole) >= 0.5f ? whole + std::copysign(1.0f, x) : whole;
  }
  return std::nearbyint(x);
}
template <RoundMode mode>
TWIN_INLINE void WholesBody(float* dst, const float* src, size_t n) {
#pragma omp simd
  for (size_t i = 0; i < n; ++i) dst[i] = WholeOf<mode>(src[i]);
}
TWIN_CLONES void Wholes(float* dst, const float* src, RoundMode mode, size_t n) {
  switch (mode) {
    case RoundMode::CAST_FLOOR:
      return WholesBody<RoundMode::CAST_FLOOR>(dst, src, n);
    case RoundMode::CAST_CEIL:
      return WholesBody<RoundMode::CAST_CEIL>(dst, src, n);
    case RoundMode::CAST_ROUND:
      return WholesBody<RoundMode::CAST_ROUND>(dst, src, n);
    case RoundMode::CAST_TRUNC:
      return WholesBody<RoundMode::CAST_TRUNC>(dst, src, n);
    default:
      return WholesBody<RoundMode::CAST_RINT>(dst, src, n);
  }
}
// Rounds to int32_t.
TWIN_CLONES void SaturatedInts(int32_t* dst, const float* src, size_t n) {
#pragma omp simd
  for (size_t i = 0; i < n; ++i) {
    const float x = src[i], limited = x > 2147483520.0f ? 2147483520.0f : (x < -2147483648.0f ? -2147483648.0f : x);
    const int32_t whole = static_cast<int32_t>(limited);
    dst[i] = x >= 2147483648.0f ? 2147483647 : (x == x ? whole : 0);
  }
}
void Cast(int32_t* dst, const float* src, RoundMode mode, size_t n) {
  float whole[kPiece];
  for (size_t at = 0; at < n; at += kPiece) {
    const size_t count = std::min(n - at, kPiece);
    Wholes(whole, src + at, mode, count);
    SaturatedInts(dst + at, whole, count);
  }
}
TWIN_CLONES void NearestFloat(float* dst, const int32_t* src, size_t n) {
#pragma omp simd
  for (size_t i = 0; i < n; ++i) dst[i] = static_cast<float>(src[i]);
}
void Cast(float* dst, const int32_t* src, RoundMode mode, size_t n) {
  if (Nearest(mode)) return NearestFloat(dst, src, n);
  for (size_t i = 0; i < n; ++i) dst[i] = IntegerToFloat(src[i], mode);
}
void Cast(float* dst, const int64_t* src, RoundMode mode, size_t n) {
  for (size_t i = 0; i < n; ++i) dst[i] = IntegerToFloat(src[i], mode);
}
void Cast(float* dst, const float* src, RoundMode mode, size_t n) {  // to an integral value
  if (mode == RoundMode::CAST_NONE) {
    std::copy(src, src + n, dst);
  } else {
    Wholes(dst, src, mode, n);
  }
}
void Cast(float* dst, const int16_t* src, RoundMode, size_t n) {
  for (size_t i = 0; i < n; ++i) dst[i] = src[i];
}

#define TWIN_DEFINE_TO_HALF(From)                                                   \
  void Cast(half* dst, const From* src, RoundMode mode, size_t n) {                 \
    for (size_t i = 0; i < n; ++i) dst[i] = half(RoundedTo(src[i], 10, -14, mode)); \
  }
TWIN_DEFINE_TO_HALF(int8_t)
TWIN_DEFINE_TO_HALF(uint8_t)
TWIN_DEFINE_TO_HALF(int16_t)
void Cast(half* dst, const int32_t* src, RoundMode mode, size_t n) {  // with SetDeqScale's scale
  const float scale = ThisCore().deq_scale;
  for (size_t i = 0; i < n; ++i) dst[i] = half(RoundedTo(static_cast<float>(src[i]) * scale, 10, -14, mode));
}

#define TWIN_DEFINE_TO_INTEGER(Int, From) \
  void Cast(Int* dst, const From* src, RoundMode mode, size_t n) { ToInteger(dst, src, mode, n); }
TWIN_DEFINE_TO_INTEGER(int8_t, half)
TWIN_DEFINE_TO_INTEGER(uint8_t, half)
TWIN_DEFINE_TO_INTEGER(int16_t, half)
TWIN_DEFINE_TO_INTEGER(int32_t, half)
TWIN_DEFINE_TO_INTEGER(int16_t, float)
TWIN_DEFINE_TO_INTEGER(int64_t, float)
TWIN_DEFINE_TO_INTEGER(int32_t, bfloat16_t)
void Cast(int16_t* dst, const int32_t* src, RoundMode, size_t n) { Narrow(dst, src, n); }
void Cast(int32_t* dst, const int64_t* src, RoundMode, size_t n) { Narrow(dst, src, n); }
void Cast(int64_t* dst, const int32_t* src, RoundMode, size_t n) {
  for (size_t i = n; i-- > 0;) dst[i] = src[i];
}

void Cast(half* dst, const AscendC::int4b_t* src, RoundMode, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const int byte = src[i / 2].pair;
    dst[i] = half(i % 2 == 0 ? static_cast<int8_t>(byte << 4) >> 4 : byte >> 4);
  }
}
void Cast(AscendC::int4b_t* dst, const half* src, RoundMode mode, size_t n) {
  for (size_t i = 0; i + 1 < n; i += 2) {
    const auto four = [&](size_t k) {
      return static_cast<int>(std::min(std::max(Rounded(static_cast<float>(src[k]), mode), -8.0), 7.0));
    };
    dst[i / 2].pair = static_cast<int8_t>((four(i) & 15) | (four(i + 1) << 4));
  }
}

}  // namespace twin::ascendc::loops
