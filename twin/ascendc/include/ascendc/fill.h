// One value to many elements: Duplicate, CreateVecIndex, Brcb; and Copy by repeats.
#pragma once

#include "ascendc/lanes.h"

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {

template <typename T>
void Duplicate(const LocalTensor<T>& dst, const T& value, const int32_t& count, Where where = Where::Here()) {
  lanes::ByCount<false>("Duplicate", count, where, [&](T* d, size_t n) { std::fill(d, d + n, value); }, dst);
}
template <typename T, bool isSetMask = true>
void Duplicate(const LocalTensor<T>& dst, const T& value, lanes::GivenMask mask, const uint8_t repeatTimes,
               const uint16_t dstBlockStride, const uint8_t dstRepeatStride, Where where = Where::Here()) {
  lanes::ByRepeat<false>(
      "Duplicate", lanes::Given<isSetMask>(mask), repeatTimes, where,
      [&](T* d, size_t n) { std::fill(d, d + n, value); }, lanes::Operand<T>{dst, dstBlockStride, dstRepeatStride});
}

namespace fill {
// first + i: integers in integer arithmetic, the rest in float.
template <typename T>
T IndexFrom(T first, uint64_t i) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(first) + i);
  return static_cast<T>(static_cast<float>(first) + static_cast<float>(i));
}
}  // namespace fill

// first, first + 1, …
template <typename T>
void CreateVecIndex(const LocalTensor<T>& dst, const T& first, uint32_t count, Where where = Where::Here()) {
  lanes::ByCount<false>(
      "CreateVecIndex", count, where,
      [&](T* d, size_t n) {
        for (size_t i = 0; i < n; ++i) d[i] = fill::IndexFrom(first, i);
      },
      dst);
}
// Continues counting from repeat to repeat, including lanes that the mask leaves out.
template <typename T>
void CreateVecIndex(const LocalTensor<T>& dst, const T& first, lanes::GivenMask mask, uint8_t repeatTimes,
                    uint16_t dstBlkStride, uint8_t dstRepStride, Where where = Where::Here()) {
  uint64_t next = 0;
  lanes::ByRepeat<false, true>(
      "CreateVecIndex", lanes::Given<true>(mask), repeatTimes, where,
      [&](T* d, size_t n) {
        for (size_t i = 0; i < n; ++i) d[i] = fill::IndexFrom(first, next++);
      },
      lanes::Operand<T>{dst, dstBlkStride, dstRepStride});
}

// Each of the 8 elements per repeat fills a block of 32 bytes.
template <typename T>
void Brcb(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint8_t repeatTimes, const BrcbRepeatParams& p,
          Where where = Where::Here()) {
  constexpr uint32_t kBlock = 32 / sizeof(T);
  policy::VectorIn(src, repeatTimes * 8u, "Brcb", where);
  policy::Aligned(dst.data(), 32, "Brcb", where);
  for (uint32_t i = 0; i < repeatTimes * 8u; ++i) {
    T* block = dst.data() + (i / 8 * p.dstRepStride + i % 8 * p.dstBlkStride) * kBlock;
    policy::Writes(PIPE_V, block, 32, "Brcb", where);
    std::fill(block, block + kBlock, src.data()[i]);
  }
}

template <typename T, bool isSetMask = true>
void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, lanes::GivenMask mask, const uint8_t repeatTimes,
          const CopyRepeatParams& p, Where where = Where::Here()) {
  lanes::ByRepeat<false>(
      "Copy", lanes::Given<isSetMask>(mask), repeatTimes, where,
      [](T* d, const T* a, size_t n) { std::copy(a, a + n, d); }, lanes::Operand<T>{dst, p.dstStride, p.dstRepeatSize},
      lanes::Operand<T>{src, p.srcStride, p.srcRepeatSize});
}

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
