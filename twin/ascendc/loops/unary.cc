// Functions of one tensor.
#include "twin/ascendc/include/ascendc/loops.h"
#include "twin/ascendc/loops/simd.h"

namespace twin::ascendc::loops {
namespace {

// Within 2 ulp: the fraction in [1/√2, √2), a polynomial of it, the exponent times ln 2.
TWIN_INLINE float LnOf(float x) {
  const bool tiny = x < 0x1p-126f;
  const float scaled = tiny ? x * 0x1p23f : x;
  const int32_t bits = std::bit_cast<int32_t>(scaled);
  const int32_t shifted = bits - 0x3f3504f3;  // relative to 1/√2
  const int32_t exponent = shifted >> 23;
  const float m = std::bit_cast<float>(bits - (exponent << 23)) - 1.0f;
  const float e = static_cast<float>(exponent) - (tiny ? 23.0f : 0.0f);
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  const float square = m * m;
  float y = p * m * square + e * -2.12194440e-4f - 0.5f * square;
  y = m + y + e * 0.693359375f;
  const float infinity = std::bit_cast<float>(0x7f800000);
  y = x == infinity ? infinity : y;
  y = x == 0.0f ? -infinity : y;
  return x >= 0.0f ? y : std::bit_cast<float>(0x7fc00000);
}

// Within 2 ulp: a polynomial where the other form would cancel.
TWIN_INLINE float TanhOf(float x) {
  const float size = std::fabs(x), square = x * x;
  float p = -5.70498872745e-3f;
  p = p * square + 2.06390887954e-2f;
  p = p * square - 5.37397155531e-2f;
  p = p * square + 1.33314422036e-1f;
  p = p * square - 3.33332819422e-1f;
  const float small = p * square * x + x;
  const float large = std::copysign(1.0f - 2.0f / (ExpOf(2.0f * size) + 1.0f), x);
  return size < 0.625f ? small : large;
}

}  // namespace

#define TWIN_DEFINE(name, T, expression)                                                                \
  TWIN_CLONES void name(T* dst, const T* a, size_t n) {                                                 \
    using W = WideOf<T>;                                                                                \
    Map(dst, a, n, [](W x) __attribute__((always_inline)) -> W { return static_cast<W>(expression); }); \
  }
#define TWIN_DEFINE_FLOATING(name, expression) TWIN_DEFINE(name, float, expression) TWIN_DEFINE(name, half, expression)

TWIN_DEFINE_FLOATING(Exp, ExpOf(x))
TWIN_DEFINE_FLOATING(Ln, LnOf(x))
TWIN_DEFINE_FLOATING(Abs, std::fabs(x))
TWIN_DEFINE_FLOATING(Reciprocal, 1.0f / x)
TWIN_DEFINE_FLOATING(Rsqrt, 1.0f / std::sqrt(x))
TWIN_DEFINE_FLOATING(Sqrt, std::sqrt(x))
TWIN_DEFINE_FLOATING(Relu, x > 0 || x != x ? x : 0)
TWIN_DEFINE(Relu, int32_t, x > 0 ? x : 0)
TWIN_DEFINE(Not, int16_t, ~x)
TWIN_DEFINE(Not, uint16_t, ~x)
TWIN_DEFINE_FLOATING(Sigmoid, 1.0f / (1.0f + ExpOf(-x)))
TWIN_DEFINE_FLOATING(Gelu, x / (1.0f + ExpOf(-1.5957691216f * (x + 0.044715f * x * x * x))))
TWIN_DEFINE_FLOATING(Tanh, TanhOf(x))
TWIN_DEFINE_FLOATING(Log, LnOf(x))
TWIN_DEFINE_FLOATING(Log2, LnOf(x) * 1.44269504f)
TWIN_DEFINE_FLOATING(Log10, LnOf(x) * 0.434294482f)
TWIN_DEFINE_FLOATING(Ceil, std::ceil(x))
TWIN_DEFINE_FLOATING(Floor, std::floor(x))
TWIN_DEFINE_FLOATING(Round, std::nearbyint(x))
TWIN_DEFINE_FLOATING(Trunc, std::trunc(x))
TWIN_DEFINE_FLOATING(Frac, x - std::trunc(x))
TWIN_DEFINE_FLOATING(Sign, x > 0 ? 1.0f : (x < 0 ? -1.0f : x))

#define TWIN_DEFINE_SWISH(T)                                                                                     \
  TWIN_CLONES void Swish(T* dst, const T* a, float beta, size_t n) {                                             \
    Map(dst, a, n, [beta](float x) __attribute__((always_inline)) { return x / (1.0f + ExpOf(-beta * x)); });    \
  }                                                                                                              \
  TWIN_CLONES void SwiGLU(T* dst, const T* a, const T* b, float beta, size_t n) {                                \
    Map2(dst, a, b, n,                                                                                           \
         [beta](float x, float y) __attribute__((always_inline)) { return x * y / (1.0f + ExpOf(-beta * y)); }); \
  }
TWIN_DEFINE_SWISH(float)
TWIN_DEFINE_SWISH(half)

// Rare in kernels: the C library's function, one element at a time.
#define TWIN_DEFINE_SLOW(name, function)                 \
  void name(float* dst, const float* a, size_t n) {      \
    Map(dst, a, n, [](float x) { return function(x); }); \
  }                                                      \
  void name(half* dst, const half* a, size_t n) {        \
    Map(dst, a, n, [](float x) { return function(x); }); \
  }
TWIN_DEFINE_SLOW(Sin, std::sin)
TWIN_DEFINE_SLOW(Cos, std::cos)
TWIN_DEFINE_SLOW(Tan, std::tan)
TWIN_DEFINE_SLOW(Asin, std::asin)
TWIN_DEFINE_SLOW(Acos, std::acos)
TWIN_DEFINE_SLOW(Atan, std::atan)
TWIN_DEFINE_SLOW(Sinh, std::sinh)
TWIN_DEFINE_SLOW(Cosh, std::cosh)
TWIN_DEFINE_SLOW(Asinh, std::asinh)
TWIN_DEFINE_SLOW(Acosh, std::acosh)
TWIN_DEFINE_SLOW(Atanh, std::atanh)
TWIN_DEFINE_SLOW(Erf, std::erf)
TWIN_DEFINE_SLOW(Erfc, std::erfc)

#define TWIN_DEFINE_POWER(T)                                                                \
  void Power(T* dst, const T* a, const T* b, size_t n) {                                    \
    Map2(dst, a, b, n, [](float x, float y) { return std::pow(x, y); });                    \
  }                                                                                         \
  void Power(T* dst, const T* a, T exponent, size_t n) {                                    \
    Map(dst, a, n, [y = static_cast<float>(exponent)](float x) { return std::pow(x, y); }); \
  }                                                                                         \
  void Fmod(T* dst, const T* a, const T* b, size_t n) {                                     \
    Map2(dst, a, b, n, [](float x, float y) { return std::fmod(x, y); });                   \
  }
TWIN_DEFINE_POWER(float)
TWIN_DEFINE_POWER(half)

}  // namespace twin::ascendc::loops
