// Sums in the device's order, and extremes with their indices.
#include <algorithm>
#include <limits>

#include "twin/ascendc/include/ascendc/loops.h"
#include "twin/ascendc/loops/simd.h"

namespace twin::ascendc::loops {
namespace {

template <typename T>
constexpr size_t kLanes = kRepeatBytes / sizeof(T);
template <typename T>
constexpr size_t kMostAtOnce = 16 * kLanes<T>;

// The result of one tree step, in T.
template <typename T>
TWIN_INLINE void Round(float* x, size_t n) {
  if constexpr (std::is_same_v<T, half>) {
    uint16_t narrow[kMostAtOnce<T> / 2];
    NarrowHalves(narrow, x, n);
    WidenHalves(x, narrow, n);
  }
}

// Equal trees side by side: x[i] = x[2i] + x[2i + 1] until `roots` are left, each over its own lanes.
template <typename T>
TWIN_INLINE void Trees(const float* x, size_t n, size_t roots, float* into) {
  float level[2][kMostAtOnce<T> / 2];
  for (int turn = 0; n > roots; turn = 1 - turn) {
    n /= 2;
    float* to = level[turn];
#pragma omp simd
    for (size_t i = 0; i < n; ++i) to[i] = x[2 * i] + x[2 * i + 1];
    Round<T>(to, n);
    x = to;
  }
  std::copy(x, x + roots, into);
}

// Floats in place, halves through `room`.
TWIN_INLINE const float* AsFloats(const float* src, size_t, float*) { return src; }
TWIN_INLINE const float* AsFloats(const half* src, size_t n, float* room) {
  WidenHalves(room, Raw(src), n);
  return room;
}

// Many repeats reduce their trees at once, and are added in order. Inactive lanes are -0, which changes no
// sum.
template <typename T>
TWIN_INLINE T SumBody(const T* src, size_t n) {
  float room[kMostAtOnce<T>], sums[16], total[1] = {};
  for (size_t at = 0; at < n; at += kMostAtOnce<T>) {
    const size_t count = std::min(n - at, kMostAtOnce<T>), repeats = (count + kLanes<T> - 1) / kLanes<T>;
    const float* lane = AsFloats(src + at, count, room);
    if (count % kLanes<T> != 0) {
      if (lane != room) std::copy(lane, lane + count, room);
      std::fill(room + count, room + repeats * kLanes<T>, -0.0f);
      lane = room;
    }
    Trees<T>(lane, repeats * kLanes<T>, repeats, sums);
    for (size_t i = 0; i < repeats; ++i) {
      total[0] = at + i == 0 ? sums[0] : total[0] + sums[i];
      Round<T>(total, 1);
    }
  }
  return static_cast<T>(total[0]);
}

template <typename T>
TWIN_INLINE void TreeBody(T* dst, const T* src, const uint64_t mask[2], size_t results) {
  float room[kLanes<T>], lane[kLanes<T>];
  const float* all = AsFloats(src, kLanes<T>, room);
  const bool whole = mask[0] == ~uint64_t{0} && (kLanes<T> <= 64 || mask[1] == ~uint64_t{0});
  for (size_t i = 0; i < kLanes<T> && !whole; ++i) lane[i] = (mask[i / 64] >> (i % 64) & 1u) != 0 ? all[i] : -0.0f;
  Trees<T>(whole ? all : lane, kLanes<T>, results, lane);
  for (size_t i = 0; i < results; ++i) dst[i] = static_cast<T>(lane[i]);
}

template <typename T, bool kLargest>
TWIN_INLINE Extreme<T> ExtremeBody(const T* src, size_t n) {
  size_t first = 0;
  constexpr float kWorst = kLargest ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
  float best = kWorst;
  for (size_t at = 0; at < n; at += kPiece) {
    float room[kPiece];
    const size_t count = std::min(n - at, kPiece);
    const float* lane = AsFloats(src + at, count, room);
    float here = best;
    if constexpr (kLargest) {
#pragma omp simd reduction(max : here)
      for (size_t i = 0; i < count; ++i) here = lane[i] > here ? lane[i] : here;
    } else {
#pragma omp simd reduction(min : here)
      for (size_t i = 0; i < count; ++i) here = lane[i] < here ? lane[i] : here;
    }
    if (here != best || at == 0) first = at;
    best = here;
  }
  // The first position in the chunk that the best value came from.
  uint32_t index = static_cast<uint32_t>(first);
  while (index < n && !(static_cast<float>(src[index]) == best)) ++index;
  if (index == n) index = 0;  // all NaN
  return {src[index], index};
}

}  // namespace

TWIN_CLONES float Sum(const float* src, size_t n) { return SumBody(src, n); }
TWIN_CLONES half Sum(const half* src, size_t n) { return SumBody(src, n); }
TWIN_CLONES void TreeSums(float* dst, const float* src, const uint64_t mask[2], size_t results) {
  TreeBody(dst, src, mask, results);
}
TWIN_CLONES void TreeSums(half* dst, const half* src, const uint64_t mask[2], size_t results) {
  TreeBody(dst, src, mask, results);
}
TWIN_CLONES Extreme<float> Largest(const float* src, size_t n) { return ExtremeBody<float, true>(src, n); }
TWIN_CLONES Extreme<float> Smallest(const float* src, size_t n) { return ExtremeBody<float, false>(src, n); }
TWIN_CLONES Extreme<half> Largest(const half* src, size_t n) { return ExtremeBody<half, true>(src, n); }
TWIN_CLONES Extreme<half> Smallest(const half* src, size_t n) { return ExtremeBody<half, false>(src, n); }

}  // namespace twin::ascendc::loops
