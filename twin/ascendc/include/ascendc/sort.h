// Sorting by falling value: 32 elements with their indices at a time, and merging of up to four sorted lists.
// An entry is 8 bytes: the value (4 bytes, or 2 and a gap), then the index. Of equals the earlier comes
// first.
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
    std::stable_sort(entries, entries + 32, [](const auto& a, const auto& b) {
      return static_cast<float>(a.value) > static_cast<float>(b.value);
    });
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
  uint16_t validBit = 15;  // one bit a list
  uint16_t repeatTimes = 1;
  MrgSort4Info() = default;
  MrgSort4Info(const uint16_t lengths[4], bool suspend, uint16_t valid, uint16_t repeats)
      : ifExhaustedSuspension(suspend), validBit(valid), repeatTimes(repeats) {
    std::copy(lengths, lengths + 4, elementLengths);
  }
};

// Lists that `validBit` names, into one. Where `ifExhaustedSuspension`, it ends with the first list that
// does.
template <typename T>
void MrgSort(const LocalTensor<T>& dst, const MrgSortSrcList<T>& sources, const MrgSort4Info& params,
             Where where = Where::Here()) {
  const LocalTensor<T> lists[4] = {sources.src1, sources.src2, sources.src3, sources.src4};
  const auto at = [&](int list, uint32_t i) {
    sort::Entry<T> entry;
    std::memcpy(&entry, lists[list].data() + i * sort::kPerEntry<T>, sizeof entry);
    return entry;
  };
  uint32_t total = 0, used[4] = {};
  for (int list = 0; list < 4; ++list) {
    if ((params.validBit >> list & 1) == 0) continue;
    policy::VectorIn(lists[list], params.elementLengths[list] * sort::kPerEntry<T>, "MrgSort", where);
    total += params.elementLengths[list];
  }
  for (uint32_t out = 0; out < total; ++out) {
    int best = -1;
    for (int list = 0; list < 4; ++list) {
      if ((params.validBit >> list & 1) == 0 || used[list] == params.elementLengths[list]) continue;
      if (best < 0 ||
          static_cast<float>(at(list, used[list]).value) > static_cast<float>(at(best, used[best]).value))
        best = list;
    }
    T* to = dst.data() + out * sort::kPerEntry<T>;
    policy::Writes(PIPE_V, to, 8, "MrgSort", where);
    const sort::Entry<T> entry = at(best, used[best]++);
    std::memcpy(to, &entry, sizeof entry);
    if (params.ifExhaustedSuspension && used[best] == params.elementLengths[best]) return;
  }
}

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
