// Descending sort: 32 elements with their indices at a time, and merging of up to four sorted lists. An entry
// is 8 bytes: the value (4 bytes, or 2 and a gap), then the index. The sort is stable.
#pragma once

#include "ascendc/lanes.h"

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {
namespace sort {

template <typename T>
struct Entry {
  T value;
  uint8_t gap[4 - sizeof(T)];
  uint32_t index;
};
template <>
struct Entry<float> {
  float value;
  uint32_t index;
};
template <typename T>
constexpr uint32_t kPerEntry = 8 / sizeof(T);
template <typename T>
bool Larger(const Entry<T>& a, const Entry<T>& b) {
  return static_cast<float>(a.value) > static_cast<float>(b.value);
}

}  // namespace sort

template <typename T>
void Sort32(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<uint32_t>& src1,
            const int32_t repeatTimes, Where where = Where::Here()) {
  const auto n = static_cast<uint32_t>(repeatTimes) * 32;
  policy::VectorIn(src0, n, "Sort32", where);
  policy::VectorIn(src1, n, "Sort32", where);
  policy::VectorOut(dst, n * sort::kPerEntry<T>, "Sort32", where);
  for (uint32_t first = 0; first < n; first += 32) {
    sort::Entry<T> entries[32] = {};
    for (uint32_t i = 0; i < 32; ++i)
      entries[i].value = src0.data()[first + i], entries[i].index = src1.data()[first + i];
    std::stable_sort(entries, entries + 32, sort::Larger<T>);
    std::memcpy(dst.data() + first * sort::kPerEntry<T>, entries, sizeof entries);
  }
}

template <typename T>
struct MrgSortSrcList {
  LocalTensor<T> src1, src2, src3, src4;
};
struct MrgSort4Info {
  uint16_t elementLengths[4] = {};
  bool ifExhaustedSuspension = false;
  uint16_t validBit = 15;  // one bit per list
  uint16_t repeatTimes = 1;
  MrgSort4Info() = default;
  MrgSort4Info(const uint16_t lengths[4], bool suspend, uint16_t valid, uint16_t repeats)
      : ifExhaustedSuspension(suspend), validBit(valid), repeatTimes(repeats) {
    std::copy(lengths, lengths + 4, elementLengths);
  }
};

namespace sort {

// Merges the lists selected by `valid`; counts how many of each were consumed. With `suspend`, stops when the
// first list is exhausted.
template <typename T>
void Merge(const LocalTensor<T>& dst, const LocalTensor<T> lists[4], const uint16_t lengths[4], bool suspend,
           uint32_t valid, uint32_t used[4], Where where) {
  const auto at = [&](int list, uint32_t i) {
    Entry<T> entry;
    std::memcpy(&entry, lists[list].data() + i * kPerEntry<T>, sizeof entry);
    return entry;
  };
  const auto has = [&](int list) { return (valid >> list & 1) != 0 && used[list] < lengths[list]; };
  for (int list = 0; list < 4; ++list) {
    used[list] = 0;
    if (!has(list)) continue;
    policy::Aligned(lists[list].data(), 8, "MrgSort", where);
    policy::Reads(PIPE_V, lists[list].data(), lengths[list] * 8u, "MrgSort", where);
  }
  for (uint32_t out = 0;; ++out) {
    int best = -1;
    for (int list = 0; list < 4; ++list) {
      if (has(list) &&
          (best < 0 || static_cast<float>(at(list, used[list]).value) > static_cast<float>(at(best, used[best]).value)))
        best = list;
    }
    if (best < 0) return;
    T* to = dst.data() + out * kPerEntry<T>;
    policy::Writes(PIPE_V, to, 8, "MrgSort", where);
    const Entry<T> entry = at(best, used[best]++);
    std::memcpy(to, &entry, sizeof entry);
    if (suspend && used[best] == lengths[best]) return;
  }
}

}  // namespace sort

// Repeats: each merges four lists of equal length, which follow those of the previous one.
template <typename T>
void MrgSort(const LocalTensor<T>& dst, const MrgSortSrcList<T>& sources, const MrgSort4Info& params,
             Where where = Where::Here()) {
  const LocalTensor<T> lists[4] = {sources.src1, sources.src2, sources.src3, sources.src4};
  uint32_t* used = twin::ascendc::ThisCore().merged;
  policy::Aligned(dst.data(), 32, "MrgSort", where);
  if (params.repeatTimes == 1) {
    sort::Merge(dst, lists, params.elementLengths, params.ifExhaustedSuspension, params.validBit, used, where);
    return;
  }
  const uint16_t length = params.elementLengths[0];
  bool even = params.validBit == 15 && !params.ifExhaustedSuspension;
  for (int list = 1; list < 4; ++list) {
    even = even && params.elementLengths[list] == length &&
           lists[list].data() == lists[0].data() + list * length * sort::kPerEntry<T>;
  }
  if (!even) policy::Fail("MrgSort", "more than one repeat needs four contiguous lists of equal length", where);
  for (uint32_t repeat = 0; repeat < params.repeatTimes; ++repeat) {
    const uint32_t at = repeat * 4 * length * sort::kPerEntry<T>;
    const LocalTensor<T> these[4] = {lists[0][at], lists[1][at], lists[2][at], lists[3][at]};
    sort::Merge(dst[at], these, params.elementLengths, false, 15, used, where);
  }
}
// How many elements of each list the last merge consumed.
inline void GetMrgSortResult(uint16_t& mrgSortList1, uint16_t& mrgSortList2, uint16_t& mrgSortList3,
                             uint16_t& mrgSortList4) {
  const uint32_t* used = twin::ascendc::ThisCore().merged;
  mrgSortList1 = static_cast<uint16_t>(used[0]), mrgSortList2 = static_cast<uint16_t>(used[1]);
  mrgSortList3 = static_cast<uint16_t>(used[2]), mrgSortList4 = static_cast<uint16_t>(used[3]);
}
template <typename T, bool isExhaustedSuspension = false>
void MrgSort(const LocalTensor<T>& dst, const MrgSortSrcList<T>& sortList, const uint16_t elementCountList[4],
             uint32_t sortedNum[4], uint16_t validBit, const int32_t repeatTimes, Where where = Where::Here()) {
  MrgSort(dst, sortList,
          MrgSort4Info(elementCountList, isExhaustedSuspension, validBit, static_cast<uint16_t>(repeatTimes)), where);
  if (isExhaustedSuspension) std::copy_n(twin::ascendc::ThisCore().merged, 4, sortedNum);
}

// Values and indices to entries and back. On this generation Concat does nothing.
template <typename T>
void Concat(LocalTensor<T>& concat, const LocalTensor<T>& src, const LocalTensor<T>& tmp, const int32_t repeatTimes) {
  concat = src;
}
template <typename T>
void Extract(const LocalTensor<T>& dstValue, const LocalTensor<uint32_t>& dstIndex, const LocalTensor<T>& sorted,
             const int32_t repeatTimes, Where where = Where::Here()) {
  const auto n = static_cast<uint32_t>(repeatTimes) * 32;
  policy::VectorIn(sorted, n * sort::kPerEntry<T>, "Extract", where);
  policy::VectorOut(dstValue, n, "Extract", where);
  policy::VectorOut(dstIndex, n, "Extract", where);
  for (uint32_t i = 0; i < n; ++i) {
    sort::Entry<T> entry;
    std::memcpy(&entry, sorted.data() + i * sort::kPerEntry<T>, sizeof entry);
    dstValue.data()[i] = entry.value, dstIndex.data()[i] = entry.index;
  }
}
// Each group of 32 by itself, or all together.
template <typename T, bool isFullSort>
void Sort(const LocalTensor<T>& dst, const LocalTensor<T>& concat, const LocalTensor<uint32_t>& index,
          LocalTensor<T>& tmp, const int32_t repeatTimes, Where where = Where::Here()) {
  Sort32(dst, concat, index, repeatTimes, where);
  if constexpr (isFullSort) {
    const auto n = static_cast<uint32_t>(repeatTimes) * 32;
    policy::VectorOut(tmp, n * sort::kPerEntry<T>, "Sort", where);
    auto* entries = reinterpret_cast<sort::Entry<T>*>(dst.data());
    std::stable_sort(entries, entries + n, sort::Larger<T>);
  }
}
// Where entry number `elemOffset` is, and how long `elemCount` entries are, in elements of T.
template <typename T>
uint32_t GetSortOffset(const uint32_t elemOffset) {
  return elemOffset * sort::kPerEntry<T>;
}
template <typename T>
uint32_t GetSortLen(const uint32_t elemCount) {
  return elemCount * sort::kPerEntry<T>;
}

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
