// Sums, maxima and minima: of a whole tensor, per repeat, per block of 32 bytes, per pair. A sum is a binary
// tree over adjacent elements within a repeat, and repeats are added in order; half and float only.
#pragma once

#include <vector>

#include "ascendc/lanes.h"

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {
namespace reduce {

namespace loops = twin::ascendc::loops;

template <typename T>
constexpr uint32_t kLanes = 256 / sizeof(T);

// The index is stored in the bits of an element.
template <typename T>
T AsElement(uint32_t index) {
  if constexpr (sizeof(T) == 2) {
    return std::bit_cast<T>(static_cast<uint16_t>(index));
  } else {
    return std::bit_cast<T>(index);
  }
}

// The active lanes of a repeat, made contiguous; `places` are the lanes they came from.
template <typename T>
uint32_t Active(const lanes::Operand<T>& src, uint32_t repeat, const lanes::Mask& mask, T* values, uint32_t* places) {
  T all[lanes::kMostLanes];
  lanes::Collect(src, repeat, kLanes<T>, all);
  uint32_t count = 0;
  for (uint32_t lane = 0; lane < kLanes<T>; ++lane) {
    if (!mask.Has(lane)) continue;
    values[count] = all[lane];
    places[count++] = lane;
  }
  return count;
}

// Calls work(repeat, mask) for each repeat, after the checker has seen its active lanes.
template <typename T, typename Work>
void EachRepeat(const char* name, const lanes::Operand<T>& src, const lanes::Mask& mask, uint32_t repeat_times,
                Where where, Work work) {
  policy::Aligned(src.tensor.data(), 32, name, where);
  const uint32_t repeats = lanes::Repeats(mask, repeat_times, kLanes<T>);
  for (uint32_t repeat = 0; repeat < repeats; ++repeat) {
    lanes::Mask active{};
    const uint32_t count = lanes::ActiveLanes(mask, repeat, kLanes<T>, &active);
    lanes::Tell(src, repeat, active, count, false, name, where);
    work(repeat, active);
  }
}

template <typename T>
void Put(const LocalTensor<T>& dst, uint64_t index, T value, const char* name, Where where) {
  policy::Writes(PIPE_V, dst.data() + index, sizeof(T), name, where);
  dst.data()[index] = value;
}

template <typename T>
void PutExtreme(const LocalTensor<T>& dst, uint64_t unit, T value, uint32_t index, ReduceOrder order, const char* name,
                Where where) {
  const T place = AsElement<T>(index);
  switch (order) {
    case ReduceOrder::ORDER_VALUE_INDEX:
      Put(dst, 2 * unit, value, name, where), Put(dst, 2 * unit + 1, place, name, where);
      break;
    case ReduceOrder::ORDER_INDEX_VALUE:
      Put(dst, 2 * unit, place, name, where), Put(dst, 2 * unit + 1, value, name, where);
      break;
    case ReduceOrder::ORDER_ONLY_VALUE:
      Put(dst, unit, value, name, where);
      break;
    case ReduceOrder::ORDER_ONLY_INDEX:
      Put(dst, unit, place, name, where);
      break;
  }
}

template <typename T, bool kLargest>
loops::Extreme<T> ExtremeOf(const T* values, uint32_t count) {
  if constexpr (kLargest) return loops::Largest(values, count);
  return loops::Smallest(values, count);
}

// Over the active lanes of all repeats; an index counts the elements in repeat order.
template <typename T, bool kLargest>
void ExtremeOfRepeats(const char* name, const LocalTensor<T>& dst, const LocalTensor<T>& src,
                      const lanes::GivenMask& mask, uint32_t repeat_times, uint32_t repeat_stride, bool with_index,
                      Where where) {
  const lanes::Operand<T> operand{src, 1, repeat_stride};
  std::vector<T> values;
  std::vector<uint32_t> places;
  EachRepeat(name, operand, lanes::Given<true>(mask), repeat_times, where,
             [&](uint32_t repeat, const lanes::Mask& active) {
               T lane[lanes::kMostLanes];
               uint32_t from[lanes::kMostLanes];
               const uint32_t count = Active(operand, repeat, active, lane, from);
               values.insert(values.end(), lane, lane + count);
               for (uint32_t i = 0; i < count; ++i)
                 places.push_back(repeat * repeat_stride * (32 / sizeof(T)) + from[i]);
             });
  if (values.empty()) return;
  const auto best = ExtremeOf<T, kLargest>(values.data(), static_cast<uint32_t>(values.size()));
  Put(dst, 0, best.value, name, where);
  if (with_index) Put(dst, 1, AsElement<T>(places[best.index]), name, where);
}

}  // namespace reduce

// Of `count` elements, into dst[0]. Zero elements: does nothing. `tmp` is not used on this generation.
template <typename T, bool isSetMask = true>
void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& tmp, const int32_t count,
               Where where = Where::Here()) {
  if (count <= 0) return;
  policy::VectorIn(src, static_cast<uint64_t>(count), "ReduceSum", where);
  reduce::Put(dst, 0, reduce::loops::Sum(src.data(), static_cast<size_t>(count)), "ReduceSum", where);
}
// Each repeat's active lanes; repeats in order.
template <typename T>
void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& tmp, lanes::GivenMask mask,
               const int32_t repeatTimes, const int32_t srcRepStride, Where where = Where::Here()) {
  T total{};
  reduce::EachRepeat(
      "ReduceSum", lanes::Operand<T>{src, 1, static_cast<uint32_t>(srcRepStride)}, lanes::Given<true>(mask),
      static_cast<uint32_t>(repeatTimes), where, [&](uint32_t repeat, const lanes::Mask& active) {
        T lane[lanes::kMostLanes];
        lanes::Collect(lanes::Operand<T>{src, 1, static_cast<uint32_t>(srcRepStride)}, repeat, reduce::kLanes<T>, lane);
        T sum;
        reduce::loops::TreeSums(&sum, lane, active.bits, 1);
        total = repeat == 0 ? sum : static_cast<T>(static_cast<float>(total) + static_cast<float>(sum));
      });
  if (repeatTimes > 0) reduce::Put(dst, 0, total, "ReduceSum", where);
}

#define TWIN_EXTREME(whole, by_repeat, by_block, largest)                                                             \
  template <typename T>                                                                                               \
  void whole(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& tmp, const int32_t count,    \
             bool calIndex = false, Where where = Where::Here()) {                                                    \
    if (count <= 0) return;                                                                                           \
    policy::VectorIn(src, static_cast<uint64_t>(count), #whole, where);                                               \
    const auto best = reduce::ExtremeOf<T, largest>(src.data(), static_cast<uint32_t>(count));                        \
    reduce::Put(dst, 0, best.value, #whole, where);                                                                   \
    if (calIndex) reduce::Put(dst, 1, reduce::AsElement<T>(best.index), #whole, where);                               \
  }                                                                                                                   \
  template <typename T>                                                                                               \
  void whole(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& tmp, lanes::GivenMask mask,  \
             const int32_t repeatTimes, const int32_t srcRepStride, bool calIndex = false,                            \
             Where where = Where::Here()) {                                                                           \
    reduce::ExtremeOfRepeats<T, largest>(#whole, dst, src, mask, static_cast<uint32_t>(repeatTimes),                  \
                                         static_cast<uint32_t>(srcRepStride), calIndex, where);                       \
  }                                                                                                                   \
  template <typename T, bool isSetMask = true>                                                                        \
  void by_repeat(const LocalTensor<T>& dst, const LocalTensor<T>& src, lanes::GivenMask mask,                         \
                 const int32_t repeatTimes, const int32_t dstRepStride, const int32_t srcBlkStride,                   \
                 const int32_t srcRepStride, ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX,                      \
                 Where where = Where::Here()) {                                                                       \
    const lanes::Operand<T> operand{src, static_cast<uint32_t>(srcBlkStride), static_cast<uint32_t>(srcRepStride)};   \
    reduce::EachRepeat(#by_repeat, operand, lanes::Given<isSetMask>(mask), static_cast<uint32_t>(repeatTimes), where, \
                       [&](uint32_t repeat, const lanes::Mask& active) {                                              \
                         T values[lanes::kMostLanes];                                                                 \
                         uint32_t places[lanes::kMostLanes];                                                          \
                         const uint32_t count = reduce::Active(operand, repeat, active, values, places);              \
                         if (count == 0) return;                                                                      \
                         const auto best = reduce::ExtremeOf<T, largest>(values, count);                              \
                         reduce::PutExtreme(dst, uint64_t{repeat} * static_cast<uint32_t>(dstRepStride), best.value,  \
                                            places[best.index], order, #by_repeat, where);                            \
                       });                                                                                            \
  }                                                                                                                   \
  template <typename T, bool isSetMask = true>                                                                        \
  void by_block(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTimes,                      \
                lanes::GivenMask mask, const int32_t dstRepStride, const int32_t srcBlkStride,                        \
                const int32_t srcRepStride, Where where = Where::Here()) {                                            \
    const lanes::Operand<T> operand{src, static_cast<uint32_t>(srcBlkStride), static_cast<uint32_t>(srcRepStride)};   \
    reduce::EachRepeat(                                                                                               \
        #by_block, operand, lanes::Given<isSetMask>(mask), static_cast<uint32_t>(repeatTimes), where,                 \
        [&](uint32_t repeat, const lanes::Mask& active) {                                                             \
          T values[lanes::kMostLanes];                                                                                \
          uint32_t places[lanes::kMostLanes];                                                                         \
          const uint32_t count = reduce::Active(operand, repeat, active, values, places);                             \
          constexpr uint32_t kBlock = 32 / sizeof(T);                                                                 \
          for (uint32_t first = 0; first < count;) {                                                                  \
            uint32_t last = first;                                                                                    \
            while (last < count && places[last] / kBlock == places[first] / kBlock) ++last;                           \
            const auto best = reduce::ExtremeOf<T, largest>(values + first, last - first);                            \
            reduce::Put(dst, uint64_t{repeat} * static_cast<uint32_t>(dstRepStride) * 8 + places[first] / kBlock,     \
                        best.value, #by_block, where);                                                                \
            first = last;                                                                                             \
          }                                                                                                           \
        });                                                                                                           \
  }
TWIN_EXTREME(ReduceMax, WholeReduceMax, BlockReduceMax, true)
TWIN_EXTREME(ReduceMin, WholeReduceMin, BlockReduceMin, false)
#undef TWIN_EXTREME

namespace reduce {

// Each repeat's tree, stopped when `results` sums are left: 1 for the whole repeat, 8 for blocks, half of the
// lanes for pairs.
template <typename T>
void Sums(const char* name, const LocalTensor<T>& dst, const lanes::Operand<T>& src, const lanes::Mask& mask,
          uint32_t repeat_times, uint32_t results, uint64_t dst_repeat, Where where) {
  EachRepeat(name, src, mask, repeat_times, where, [&](uint32_t repeat, const lanes::Mask& active) {
    T lane[lanes::kMostLanes], sums[lanes::kMostLanes / 2];
    lanes::Collect(src, repeat, kLanes<T>, lane);
    loops::TreeSums(sums, lane, active.bits, results);
    const uint32_t width = kLanes<T> / results;
    for (uint32_t i = 0; i < results; ++i) {  // nothing is written if no lane is active
      if (active.HasAny(i * width, width)) Put(dst, repeat * dst_repeat + i, sums[i], name, where);
    }
  });
}

}  // namespace reduce

template <typename T, bool isSetMask = true>
void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, lanes::GivenMask mask,
                    const int32_t repeatTimes, const int32_t dstRepStride, const int32_t srcBlkStride,
                    const int32_t srcRepStride, Where where = Where::Here()) {
  reduce::Sums("WholeReduceSum", dst,
               lanes::Operand<T>{src, static_cast<uint32_t>(srcBlkStride), static_cast<uint32_t>(srcRepStride)},
               lanes::Given<isSetMask>(mask), static_cast<uint32_t>(repeatTimes), 1,
               static_cast<uint64_t>(dstRepStride), where);
}
// A repeat's destination stride is in units of 8 results.
template <typename T, bool isSetMask = true>
void BlockReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTimes,
                    lanes::GivenMask mask, const int32_t dstRepStride, const int32_t srcBlkStride,
                    const int32_t srcRepStride, Where where = Where::Here()) {
  reduce::Sums("BlockReduceSum", dst,
               lanes::Operand<T>{src, static_cast<uint32_t>(srcBlkStride), static_cast<uint32_t>(srcRepStride)},
               lanes::Given<isSetMask>(mask), static_cast<uint32_t>(repeatTimes), 8,
               static_cast<uint64_t>(dstRepStride) * 8, where);
}
// A repeat's destination stride is in units of 128 bytes, the results of one repeat.
template <typename T, bool isSetMask = true>
void PairReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTimes,
                   lanes::GivenMask mask, const int32_t dstRepStride, const int32_t srcBlkStride,
                   const int32_t srcRepStride, Where where = Where::Here()) {
  reduce::Sums("PairReduceSum", dst,
               lanes::Operand<T>{src, static_cast<uint32_t>(srcBlkStride), static_cast<uint32_t>(srcRepStride)},
               lanes::Given<isSetMask>(mask), static_cast<uint32_t>(repeatTimes), reduce::kLanes<T> / 2,
               static_cast<uint64_t>(dstRepStride) * (reduce::kLanes<T> / 2), where);
}
template <typename T, bool isSetMask = true>
void RepeatReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTimes,
                     const int32_t elemsInOneRepeat, const int32_t dstBlkStride, const int32_t srcBlkStride,
                     const int32_t dstRepStride, const int32_t srcRepStride, Where where = Where::Here()) {
  WholeReduceSum<T, isSetMask>(dst, src, elemsInOneRepeat, repeatTimes, dstRepStride, srcBlkStride, srcRepStride,
                               where);
}

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
