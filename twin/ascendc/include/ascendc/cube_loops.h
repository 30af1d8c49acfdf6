// The cube core's arithmetic, compiled once for both builds (loops/mmad.cc, loops/fractal.cc).
#pragma once

#include <cstddef>
#include <cstdint>

#include "ascendc/core.h"
#include "ascendc/types.h"

namespace twin::ascendc::loops {

// C += A B: A in fractals ZZ (16 x C0), B in ZN (C0 x 16), C in NZ (16 x 16). Lanes beyond m and n are computed like
// the others; along k only the first k elements count.
struct ProductShape {
  uint32_t m, n, k;
  uint32_t fractals_m, fractals_n, fractals_k;  // fractals_k: columns of fractals that A is laid out in
};
// Sums in fp32, products added one at a time in order of k; in int32, exactly.
TWIN_EXPORT void Multiply(float* c, const half* a, const half* b, const ProductShape& shape);
TWIN_EXPORT void Multiply(float* c, const bfloat16_t* a, const bfloat16_t* b, const ProductShape& shape);
TWIN_EXPORT void Multiply(float* c, const float* a, const float* b, const ProductShape& shape);
TWIN_EXPORT void Multiply(int32_t* c, const int8_t* a, const int8_t* b, const ProductShape& shape);

// fp32 to nearest, ties to even.
TWIN_EXPORT void RoundRow(float* dst, const float* src, size_t n);
TWIN_EXPORT void RoundRow(half* dst, const float* src, size_t n);
TWIN_EXPORT void RoundRow(bfloat16_t* dst, const float* src, size_t n);

// 16 x 16 elements of 16 bits.
TWIN_EXPORT void TransposeFractal(uint16_t* dst, const uint16_t* src);

}  // namespace twin::ascendc::loops
