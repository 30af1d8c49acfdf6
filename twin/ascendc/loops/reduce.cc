// Sums in the device's order, and extremes with their places.
#include <algorithm>
#include <limits>

#include "twin/ascendc/include/ascendc/loops.h"
#include "twin/ascendc/loops/simd.h"

namespace twin::ascendc::loops {
namespace {

template <typename T>
constexpr size_t kLanes = kRepeatBytes / sizeof(T);

// lane[i] = lane[2i] + lane[2i + 1], rounded to T, until one is left.
template <typename T, size_t kCount>
TWIN_INLINE float Tree(float* lane) {
  if constexpr (kCount > 1) {
    float next[kCount / 2];
#pragma omp simd
    for (size_t i = 0; i < kCount / 2; ++i)
      next[i] = Lane<T>::Get(Lane<T>::Put(lane[2 * i] + lane[2 * i + 1]));
    return Tree<T, kCount / 2>(next);
  } else {
    return lane[0];
  }
}

// Lanes that do not count are -0, which changes no sum.
template <typename T>
TWIN_INLINE float SumOfRepeat(const RawOf<T>* src, size_t n) {
  float lane[kLanes<T>];
  if (n == kLanes<T>) {
#pragma omp simd
    for (size_t i = 0; i < kLanes<T>; ++i) lane[i] = Lane<T>::Get(src[i]);
  } else {
    for (size_t i = 0; i < kLanes<T>; ++i) lane[i] = i < n ? Lane<T>::Get(src[i]) : -0.0f;
  }
  return Tree<T, kLanes<T>>(lane);
}

template <typename T>
TWIN_INLINE T SumBody(const T* src, size_t n) {
  const RawOf<T>* x = Raw(src);
  float total = SumOfRepeat<T>(x, std::min(n, kLanes<T>));
  for (size_t i = kLanes<T>; i < n; i += kLanes<T>) {
    total = Lane<T>::Get(Lane<T>::Put(total + SumOfRepeat<T>(x + i, std::min(n - i, kLanes<T>))));
  }
  return std::bit_cast<T>(Lane<T>::Put(total));
}

template <typename T>
TWIN_INLINE T TreeBody(const T* src, const uint64_t mask[2]) {
  float lane[kLanes<T>];
  for (size_t i = 0; i < kLanes<T>; ++i) {
    lane[i] = (mask[i / 64] >> (i % 64) & 1u) != 0 ? Lane<T>::Get(Raw(src)[i]) : -0.0f;
  }
  return std::bit_cast<T>(Lane<T>::Put(Tree<T, kLanes<T>>(lane)));
}

template <typename T, bool kLargest>
TWIN_INLINE Extreme<T> ExtremeBody(const T* src, size_t n) {
  const RawOf<T>* x = Raw(src);
  constexpr float kWorst =
      kLargest ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
  float best = kWorst;
  if constexpr (kLargest) {
#pragma omp simd reduction(max : best)
    for (size_t i = 0; i < n; ++i) best = Lane<T>::Get(x[i]) > best ? Lane<T>::Get(x[i]) : best;
  } else {
#pragma omp simd reduction(min : best)
    for (size_t i = 0; i < n; ++i) best = Lane<T>::Get(x[i]) < best ? Lane<T>::Get(x[i]) : best;
  }
  uint32_t index = 0;
  while (index < n && !(Lane<T>::Get(x[index]) == best)) ++index;
  if (index == n) index = 0;  // nothing but NaN
  return {src[index], index};
}

}  // namespace

TWIN_CLONES float Sum(const float* src, size_t n) { return SumBody(src, n); }
TWIN_CLONES half Sum(const half* src, size_t n) { return SumBody(src, n); }
float TreeSum(const float* src, const uint64_t mask[2]) { return TreeBody(src, mask); }
half TreeSum(const half* src, const uint64_t mask[2]) { return TreeBody(src, mask); }
TWIN_CLONES Extreme<float> Largest(const float* src, size_t n) { return ExtremeBody<float, true>(src, n); }
TWIN_CLONES Extreme<float> Smallest(const float* src, size_t n) { return ExtremeBody<float, false>(src, n); }
TWIN_CLONES Extreme<half> Largest(const half* src, size_t n) { return ExtremeBody<half, true>(src, n); }
TWIN_CLONES Extreme<half> Smallest(const half* src, size_t n) { return ExtremeBody<half, false>(src, n); }

}  // namespace twin::ascendc::loops
