// With F16C, eight at a time, if the processor has it; scalar code elsewhere and for the remainder.
#include "twin/ascendc/loops/half.h"

#include "twin/ascendc/loops/simd.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define TWIN_HAS_F16C 1
#endif

namespace twin::ascendc {
namespace {

TWIN_CLONES void WidenPlainly(float* dst, const uint16_t* src, size_t n) {
#pragma omp simd
  for (size_t i = 0; i < n; ++i) dst[i] = HalfToFloat(src[i]);
}
TWIN_CLONES void NarrowPlainly(uint16_t* dst, const float* src, size_t n) {
#pragma omp simd
  for (size_t i = 0; i < n; ++i) dst[i] = FloatToHalf(src[i]);
}

#ifdef TWIN_HAS_F16C
bool HasF16c() {
  static const bool has = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("f16c") != 0;
  return has;
}
__attribute__((target("avx2,f16c"))) size_t WidenEights(float* dst, const uint16_t* src, size_t n) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(src + i))));
  return i;
}
__attribute__((target("avx2,f16c"))) size_t NarrowEights(uint16_t* dst, const float* src, size_t n) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
  return i;
}
#else
bool HasF16c() { return false; }
size_t WidenEights(float*, const uint16_t*, size_t) { return 0; }
size_t NarrowEights(uint16_t*, const float*, size_t) { return 0; }
#endif

}  // namespace

void WidenHalves(float* dst, const uint16_t* src, size_t n) {
  const size_t done = HasF16c() ? WidenEights(dst, src, n) : 0;
  WidenPlainly(dst + done, src + done, n - done);
}
void NarrowHalves(uint16_t* dst, const float* src, size_t n) {
  const size_t done = HasF16c() ? NarrowEights(dst, src, n) : 0;
  NarrowPlainly(dst + done, src + done, n - done);
}

}  // namespace twin::ascendc
