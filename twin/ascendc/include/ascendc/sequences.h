// Progressions, cumulative sums, broadcasts and row-wise top-k. Temporary buffers and tilings are accepted
// and ignored; sums of half are accumulated in float and rounded once.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "ascendc/lanes.h"
#include "ascendc/tilings.h"

namespace AscendC {

struct CumSumConfig {
  bool isLastAxis = true, isReuseSource = false, outputLastRow = false;
};
inline constexpr CumSumConfig defaultCumSumConfig{};
struct CumSumInfo {
  uint32_t outter = 0, inner = 0;  // rows, and elements per row
};
enum class TopKMode { TOPK_NORMAL, TOPK_NSMALL };
struct TopKInfo {
  int32_t outter = 1, inner = 0, n = 0;  // rows of inner elements, of which n are valid
};

inline namespace TWIN_ASCENDC_BUILD {

// first, first + diff, first + 2 · diff, …
template <typename T>
void ArithProgression(const LocalTensor<T>& dst, const T firstValue, const T diffValue, const int32_t count,
                      Where where = Where::Here()) {
  policy::Wants(count > 0, "the count must be above 0", "ArithProgression", where);
  policy::VectorOut(dst, static_cast<uint64_t>(count), "ArithProgression", where);
  for (int32_t i = 0; i < count; ++i) {
    if constexpr (std::is_integral_v<T>) {
      dst.data()[i] = static_cast<T>(firstValue + i * diffValue);
    } else {
      dst.data()[i] =
          static_cast<T>(static_cast<float>(firstValue) + static_cast<float>(i) * static_cast<float>(diffValue));
    }
  }
}

// Along each row, or (first axis) from row to row; with outputLastRow, the last row is also output
// separately.
template <typename T, const CumSumConfig& config = defaultCumSumConfig>
void CumSum(const LocalTensor<T>& dst, const LocalTensor<T>& lastRow, const LocalTensor<T>& src, const CumSumInfo& info,
            Where where = Where::Here()) {
  const uint64_t rows = info.outter, columns = info.inner, all = rows * columns;
  policy::Wants(columns * sizeof(T) % 32 == 0, "rows must be multiples of 32 bytes", "CumSum", where);
  policy::VectorIn(src, all, "CumSum", where);
  policy::VectorOut(dst, all, "CumSum", where);
  std::vector<float> sums(src.data(), src.data() + all);
  for (uint64_t i = 0; i < all; ++i) {
    const bool first = config.isLastAxis ? i % columns == 0 : i < columns;
    if (!first) sums[i] += sums[config.isLastAxis ? i - 1 : i - columns];
  }
  std::copy(sums.begin(), sums.end(), dst.data());
  if (!config.outputLastRow || rows == 0) return;
  policy::VectorOut(lastRow, columns, "CumSum", where);
  std::copy(sums.end() - static_cast<int64_t>(columns), sums.end(), lastRow.data());
}
template <typename T, const CumSumConfig& config = defaultCumSumConfig>
void CumSum(const LocalTensor<T>& dst, const LocalTensor<T>& lastRow, const LocalTensor<T>& src,
            const LocalTensor<uint8_t>& sharedTmpBuffer, const CumSumInfo& info, Where where = Where::Here()) {
  CumSum<T, config>(dst, lastRow, src, info, where);
}

// One or two dims; along `axis` the source has one element.
template <typename T, int32_t dim, int32_t axis, bool isReuseSource = false>
void BroadCast(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t dstShape[dim],
               const uint32_t srcShape[dim], Where where = Where::Here()) {
  static_assert(dim == 1 || dim == 2, "BroadCast takes one or two dims");
  static_assert(axis >= 0 && axis < dim, "the axis is out of range");
  policy::Wants(srcShape[axis] == 1, "the source must have one element along the axis", "BroadCast", where);
  for (int32_t i = 0; i < dim; ++i)
    policy::Wants(i == axis || srcShape[i] == dstShape[i], "the shapes differ outside the axis", "BroadCast", where);
  const uint32_t columns = dstShape[dim - 1], rows = dim == 1 ? 1 : dstShape[0];
  const uint64_t given = axis == dim - 1 ? rows : columns;
  policy::VectorIn(src, given, "BroadCast", where);
  policy::VectorOut(dst, uint64_t{rows} * columns, "BroadCast", where);
  const std::vector<T> values(src.data(), src.data() + given);
  for (uint64_t i = 0; i < uint64_t{rows} * columns; ++i)
    dst.data()[i] = values[axis == dim - 1 ? i / columns : i % columns];
}
template <typename T, int32_t dim, int32_t axis, bool isReuseSource = false>
void BroadCast(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t dstShape[dim],
               const uint32_t srcShape[dim], const LocalTensor<uint8_t>& sharedTmpBuffer, Where where = Where::Here()) {
  BroadCast<T, dim, axis, isReuseSource>(dst, src, dstShape, srcShape, where);
}

// Each row's k largest (or smallest) in order, equal elements in source order, and their indices: positions,
// or the given indices. A finished row gets the index n. A row's results start at a multiple of 32 bytes
// (normal mode) or right after the previous row (small mode, rows of 32).
template <typename T, bool isInitIndex = false, bool isHasfinish = false, bool isReuseSrc = false,
          TopKMode topkMode = TopKMode::TOPK_NORMAL>
void TopK(const LocalTensor<T>& dstValue, const LocalTensor<int32_t>& dstIndex, const LocalTensor<T>& src,
          const LocalTensor<int32_t>& srcIndex, const LocalTensor<bool>& finish, const int32_t k, const TopkTiling&,
          const TopKInfo& info, const bool isLargest = true, Where where = Where::Here()) {
  constexpr bool kSmall = topkMode == TopKMode::TOPK_NSMALL;
  const auto rows = static_cast<uint32_t>(info.outter), inner = static_cast<uint32_t>(info.inner),
             n = static_cast<uint32_t>(info.n), wanted = static_cast<uint32_t>(k);
  policy::Wants(k > 0 && wanted <= n && n <= inner, "needs 0 < k <= n <= inner", "TopK", where);
  policy::Wants(inner % 32 == 0 && (!kSmall || inner == 32), "inner must be a multiple of 32, and 32 in small mode",
                "TopK", where);
  const auto pitch = [&](uint64_t bytes) {
    return kSmall ? wanted : static_cast<uint32_t>((wanted * bytes + 31) / 32 * 32 / bytes);
  };
  policy::VectorIn(src, uint64_t{rows} * inner, "TopK", where);
  if (isInitIndex) policy::VectorIn(srcIndex, inner, "TopK", where);
  if (isHasfinish) policy::VectorIn(finish, rows, "TopK", where);
  policy::VectorOut(dstValue, uint64_t{rows} * pitch(sizeof(T)), "TopK", where);
  policy::VectorOut(dstIndex, uint64_t{rows} * pitch(4), "TopK", where);
  const std::vector<T> given(src.data(), src.data() + uint64_t{rows} * inner);
  std::vector<uint32_t> order(n);
  for (uint32_t row = 0; row < rows; ++row) {
    const T* values = given.data() + uint64_t{row} * inner;
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      const auto x = static_cast<float>(values[a]), y = static_cast<float>(values[b]);
      return isLargest ? x > y : x < y;
    });
    const bool finished = isHasfinish && finish.data()[row];
    for (uint32_t i = 0; i < wanted; ++i) {
      const int32_t place = isInitIndex ? srcIndex.data()[order[i]] : static_cast<int32_t>(order[i]);
      dstValue.data()[row * pitch(sizeof(T)) + i] = values[order[i]];
      dstIndex.data()[row * pitch(4) + i] = finished ? info.n : place;
    }
  }
}
template <typename T, bool isInitIndex = false, bool isHasfinish = false, bool isReuseSrc = false,
          TopKMode topkMode = TopKMode::TOPK_NORMAL>
void TopK(const LocalTensor<T>& dstValue, const LocalTensor<int32_t>& dstIndex, const LocalTensor<T>& src,
          const LocalTensor<int32_t>& srcIndex, const LocalTensor<bool>& finish,
          const LocalTensor<uint8_t>& sharedTmpBuffer, const int32_t k, const TopkTiling& tiling, const TopKInfo& info,
          const bool isLargest = true, Where where = Where::Here()) {
  TopK<T, isInitIndex, isHasfinish, isReuseSrc, topkMode>(dstValue, dstIndex, src, srcIndex, finish, k, tiling, info,
                                                          isLargest, where);
}

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
