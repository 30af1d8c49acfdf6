// Fractals of 16-bit elements transposed, and rows of L0C rounded.
#include <cstring>

#include "twin/ascendc/include/ascendc/cube_loops.h"
#include "twin/ascendc/loops/simd.h"

namespace twin::ascendc::loops {

TWIN_CLONES void TransposeFractal(uint16_t* dst, const uint16_t* src) {
  constexpr int kSide = 16;
  uint16_t rows[kSide * kSide];
  std::memcpy(rows, src, sizeof rows);
  for (int i = 0; i < kSide; ++i) {
#pragma omp simd
    for (int j = 0; j < kSide; ++j) dst[i * kSide + j] = rows[j * kSide + i];
  }
}

void RoundRow(float* dst, const float* src, size_t n) { std::memcpy(dst, src, n * sizeof(float)); }
void RoundRow(half* dst, const float* src, size_t n) { NarrowHalves(Raw(dst), src, n); }
TWIN_CLONES void RoundRow(bfloat16_t* dst, const float* src, size_t n) {
  auto* bits = reinterpret_cast<uint16_t*>(dst);
#pragma omp simd
  for (size_t i = 0; i < n; ++i) bits[i] = FloatToBf16(src[i]);
}

}  // namespace twin::ascendc::loops
