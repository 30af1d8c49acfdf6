// The arithmetic of the vector functions over contiguous elements, compiled once for both builds
// (loops/*.cc). Overloads exist only for the types that the device computes in: bfloat16_t has no arithmetic.
// Each takes destination, sources and a count; the destination may be one of the sources.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ascendc/core.h"
#include "ascendc/enums.h"
#include "ascendc/types.h"

namespace twin::ascendc::loops {

using AscendC::CMPMODE;
using AscendC::RoundMode;

#define TWIN_BINARY(name, T) TWIN_EXPORT void name(T* dst, const T* a, const T* b, size_t n);
#define TWIN_BINARY_ARITHMETIC(name) \
  TWIN_BINARY(name, float) TWIN_BINARY(name, half) TWIN_BINARY(name, int16_t) TWIN_BINARY(name, int32_t)
#define TWIN_BINARY_FLOATING(name) TWIN_BINARY(name, float) TWIN_BINARY(name, half)
TWIN_BINARY_ARITHMETIC(Add)
TWIN_BINARY_ARITHMETIC(Sub)
TWIN_BINARY_ARITHMETIC(Mul)
TWIN_BINARY_ARITHMETIC(Max)
TWIN_BINARY_ARITHMETIC(Min)
TWIN_BINARY_FLOATING(Div)
TWIN_BINARY_FLOATING(AddRelu)
TWIN_BINARY_FLOATING(SubRelu)
TWIN_BINARY_FLOATING(MulAddDst)        // dst += a * b
TWIN_BINARY_FLOATING(FusedMulAdd)      // dst = a * dst + b
TWIN_BINARY_FLOATING(FusedMulAddRelu)  // the same, never below 0
TWIN_BINARY(And, int16_t)
TWIN_BINARY(And, uint16_t)
TWIN_BINARY(And, uint8_t)
TWIN_BINARY(Or, int16_t)
TWIN_BINARY(Or, uint16_t)
TWIN_BINARY(Or, uint8_t)

#define TWIN_SCALAR(name, T) TWIN_EXPORT void name(T* dst, const T* a, T scalar, size_t n);
#define TWIN_SCALAR_ARITHMETIC(name) \
  TWIN_SCALAR(name, float) TWIN_SCALAR(name, half) TWIN_SCALAR(name, int16_t) TWIN_SCALAR(name, int32_t)
TWIN_SCALAR_ARITHMETIC(Adds)
TWIN_SCALAR_ARITHMETIC(Muls)
TWIN_SCALAR_ARITHMETIC(Maxs)
TWIN_SCALAR_ARITHMETIC(Mins)
TWIN_SCALAR(LeakyRelu, float)
TWIN_SCALAR(LeakyRelu, half)
TWIN_SCALAR(Axpy, float)
TWIN_SCALAR(Axpy, half)  // dst += scalar * a
TWIN_EXPORT void Axpy(float* dst, const half* a, half scalar, size_t n);
#define TWIN_SCALAR_INTEGER(name) \
  TWIN_SCALAR(name, int16_t)      \
  TWIN_SCALAR(name, uint16_t) TWIN_SCALAR(name, int32_t) TWIN_SCALAR(name, uint32_t)
TWIN_SCALAR_INTEGER(ShiftLeft)
#define TWIN_SHIFT_RIGHT(T) TWIN_EXPORT void ShiftRight(T* dst, const T* a, T scalar, bool rounds, size_t n);
TWIN_SHIFT_RIGHT(int16_t)
TWIN_SHIFT_RIGHT(uint16_t)
TWIN_SHIFT_RIGHT(int32_t)
TWIN_SHIFT_RIGHT(uint32_t)

#define TWIN_UNARY(name, T) TWIN_EXPORT void name(T* dst, const T* a, size_t n);
#define TWIN_UNARY_FLOATING(name) TWIN_UNARY(name, float) TWIN_UNARY(name, half)
TWIN_UNARY_FLOATING(Exp)
TWIN_UNARY_FLOATING(Ln)
TWIN_UNARY_FLOATING(Abs)
TWIN_UNARY_FLOATING(Reciprocal)
TWIN_UNARY_FLOATING(Rsqrt)
TWIN_UNARY_FLOATING(Sqrt)
TWIN_UNARY_FLOATING(Relu)
TWIN_UNARY(Relu, int32_t)
TWIN_UNARY(Not, int16_t)
TWIN_UNARY(Not, uint16_t)
// clang-format off
TWIN_UNARY_FLOATING(Sin)
TWIN_UNARY_FLOATING(Cos)
TWIN_UNARY_FLOATING(Tan)
TWIN_UNARY_FLOATING(Asin)
TWIN_UNARY_FLOATING(Acos)
TWIN_UNARY_FLOATING(Atan)
TWIN_UNARY_FLOATING(Sinh)
TWIN_UNARY_FLOATING(Cosh)
TWIN_UNARY_FLOATING(Tanh)
TWIN_UNARY_FLOATING(Asinh)
TWIN_UNARY_FLOATING(Acosh)
TWIN_UNARY_FLOATING(Atanh)
TWIN_UNARY_FLOATING(Sigmoid)
TWIN_UNARY_FLOATING(Erf)
TWIN_UNARY_FLOATING(Erfc)
TWIN_UNARY_FLOATING(Log)
TWIN_UNARY_FLOATING(Log2)
TWIN_UNARY_FLOATING(Log10)
TWIN_UNARY_FLOATING(Ceil)
TWIN_UNARY_FLOATING(Floor)
TWIN_UNARY_FLOATING(Round)
TWIN_UNARY_FLOATING(Trunc)
TWIN_UNARY_FLOATING(Frac)
TWIN_UNARY_FLOATING(Sign)
TWIN_UNARY_FLOATING(Gelu)
TWIN_BINARY_FLOATING(Power)
TWIN_BINARY_FLOATING(Fmod)
TWIN_EXPORT void Power(float* dst, const float* a, float exponent, size_t n);
TWIN_EXPORT void Power(half* dst, const half* a, half exponent, size_t n);
#define TWIN_SWISH(T)                                                                              \
  TWIN_EXPORT void Swish(T* dst, const T* a, float beta, size_t n);              /* a s(beta a) */ \
  TWIN_EXPORT void SwiGLU(T* dst, const T* a, const T* b, float beta, size_t n); /* a b s(beta b) */
TWIN_SWISH(float)
TWIN_SWISH(half)

// The device's type pairs, and no others.
#define TWIN_CAST(To, From) TWIN_EXPORT void Cast(To* dst, const From* src, RoundMode mode, size_t n);
TWIN_CAST(half, int8_t)
TWIN_CAST(half, uint8_t)
TWIN_CAST(half, int16_t)
TWIN_CAST(half, float)
TWIN_CAST(half, int32_t)
TWIN_CAST(float, half)
TWIN_CAST(float, bfloat16_t)
TWIN_CAST(float, int16_t)
TWIN_CAST(float, int32_t)
TWIN_CAST(float, int64_t)
TWIN_CAST(float, float)
TWIN_CAST(bfloat16_t, float)
TWIN_CAST(int8_t, half)
TWIN_CAST(uint8_t, half)
TWIN_CAST(int16_t, half)
TWIN_CAST(int32_t, half)
TWIN_CAST(int16_t, float)
TWIN_CAST(int32_t, float)
TWIN_CAST(int64_t, float)
TWIN_CAST(int32_t, bfloat16_t)
TWIN_CAST(int16_t, int32_t)
TWIN_CAST(int64_t, int32_t)
TWIN_CAST(int32_t, int64_t)
TWIN_CAST(half, AscendC::int4b_t)
TWIN_CAST(AscendC::int4b_t, half)
// clang-format on

// A binary tree over adjacent elements within each 256 bytes, whose sums are added in order. n is not 0.
TWIN_EXPORT float Sum(const float* src, size_t n);
TWIN_EXPORT half Sum(const half* src, size_t n);
// One repeat of 256 bytes, in which the lanes set in `mask` count: the tree stops when `results` sums are
// left, each over its share of the lanes.
TWIN_EXPORT void TreeSums(float* dst, const float* src, const uint64_t mask[2], size_t results);
TWIN_EXPORT void TreeSums(half* dst, const half* src, const uint64_t mask[2], size_t results);

template <typename T>
struct Extreme {
  T value;
  uint32_t index;
};
// The first of equal elements; NaNs are skipped, since comparisons with them are false.
TWIN_EXPORT Extreme<float> Largest(const float* src, size_t n);
TWIN_EXPORT Extreme<float> Smallest(const float* src, size_t n);
TWIN_EXPORT Extreme<half> Largest(const half* src, size_t n);
TWIN_EXPORT Extreme<half> Smallest(const half* src, size_t n);

// n is a multiple of 8; one bit per element, the lowest first.
#define TWIN_COMPARE(T)                                                                   \
  TWIN_EXPORT void Compare(uint8_t* dst, const T* a, const T* b, CMPMODE mode, size_t n); \
  TWIN_EXPORT void CompareScalar(uint8_t* dst, const T* a, T b, CMPMODE mode, size_t n);
TWIN_COMPARE(float)
TWIN_COMPARE(half)
TWIN_COMPARE(int32_t)
// Elements of 2 or 4 bytes: a's where the bit is set, else b's.
#define TWIN_SELECT(Word)                                                                          \
  TWIN_EXPORT void Select(Word* dst, const Word* a, const Word* b, const uint8_t* bits, size_t n); \
  TWIN_EXPORT void SelectScalar(Word* dst, const Word* a, Word b, const uint8_t* bits, size_t n);
TWIN_SELECT(uint16_t)
TWIN_SELECT(uint32_t)

#undef TWIN_BINARY
#undef TWIN_SCALAR
#undef TWIN_SHIFT_RIGHT
#undef TWIN_UNARY
#undef TWIN_SWISH
#undef TWIN_CAST
#undef TWIN_COMPARE
#undef TWIN_SELECT

}  // namespace twin::ascendc::loops
