// Comparisons into one bit per element, and selection by such bits.
#pragma once

#include <bit>

#include "ascendc/lanes.h"

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {
namespace compare {

// Whole repeats only; the remainder is not compared. 32-bit integers support only equality.
template <typename T>
uint64_t Comparable(CMPMODE mode, uint32_t count, const char* name, Where where) {
  policy::Wants(count * sizeof(T) % 256 == 0, "the count is not a multiple of 256 bytes: the remainder is not compared",
                name, where);
  if (std::is_same_v<T, int32_t> && mode != CMPMODE::EQ)
    policy::Fail(name, "int32_t supports only comparison for equality", where);
  return count * sizeof(T) / 256 * (256 / sizeof(T));
}

}  // namespace compare

template <typename T, typename U>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE mode,
             uint32_t count, Where where = Where::Here()) {
  const uint64_t n = compare::Comparable<T>(mode, count, "Compare", where);
  policy::VectorIn(src0, n, "Compare", where);
  policy::VectorIn(src1, n, "Compare", where);
  policy::VectorOut(dst, n / 8 / sizeof(U), "Compare", where);
  lanes::loops::Compare(dst.bytes_begin(), src0.data(), src1.data(), mode, n);
}
template <typename T, typename U>
void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1, CMPMODE mode, uint32_t count,
                   Where where = Where::Here()) {
  const uint64_t n = compare::Comparable<T>(mode, count, "CompareScalar", where);
  policy::VectorIn(src0, n, "CompareScalar", where);
  policy::VectorOut(dst, n / 8 / sizeof(U), "CompareScalar", where);
  lanes::loops::CompareScalar(dst.bytes_begin(), src0.data(), src1, mode, n);
}
template <typename T, typename U>
void Compares(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1, CMPMODE mode, uint32_t count,
              Where where = Where::Here()) {
  CompareScalar(dst, src0, src1, mode, count, where);
}
namespace compare {

// By repeats: every lane is compared regardless of the mask; a repeat's bits follow those of the previous
// one.
template <typename T, typename U, typename Loop, typename... S>
void EachRepeat(const char* name, const LocalTensor<U>& dst, uint8_t repeat_times, CMPMODE mode, Where where, Loop loop,
                const S&... operands) {
  constexpr uint32_t kWidth = 256 / sizeof(T);
  const lanes::Mask all = lanes::First(kWidth);
  Comparable<T>(mode, kWidth, name, where);
  (policy::Aligned(operands.tensor.data(), 32, name, where), ...);
  for (uint32_t repeat = 0; repeat < repeat_times; ++repeat) {
    (lanes::Tell(operands, repeat, all, kWidth, false, name, where), ...);
    T lane[sizeof...(S)][lanes::kMostLanes];
    uint32_t i = 0;
    (lanes::Collect(operands, repeat, kWidth, lane[i++]), ...);
    uint8_t* bits = dst.bytes_begin() + repeat * (kWidth / 8);
    policy::Writes(PIPE_V, bits, kWidth / 8, name, where);
    loop(bits, lane, kWidth);
  }
}

}  // namespace compare

template <typename T, typename U, bool isSetMask = true>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE mode,
             lanes::GivenMask mask, uint8_t repeatTimes, const BinaryRepeatParams& p, Where where = Where::Here()) {
  compare::EachRepeat<T>(
      "Compare", dst, repeatTimes, mode, where,
      [&](uint8_t* bits, auto& lane, size_t n) { lanes::loops::Compare(bits, lane[0], lane[1], mode, n); },
      lanes::Operand<T>{src0, p.src0BlkStride, p.src0RepStride},
      lanes::Operand<T>{src1, p.src1BlkStride, p.src1RepStride});
}
template <typename T, typename U, bool isSetMask = true>
void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1, CMPMODE mode,
                   lanes::GivenMask mask, uint8_t repeatTimes, const UnaryRepeatParams& p,
                   Where where = Where::Here()) {
  compare::EachRepeat<T>(
      "CompareScalar", dst, repeatTimes, mode, where,
      [&](uint8_t* bits, auto& lane, size_t n) { lanes::loops::CompareScalar(bits, lane[0], src1, mode, n); },
      lanes::Operand<T>{src0, p.srcBlkStride, p.srcRepStride});
}
template <typename T, typename U, bool isSetMask = true>
void Compares(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1, CMPMODE mode, lanes::GivenMask mask,
              uint8_t repeatTimes, const UnaryRepeatParams& p, Where where = Where::Here()) {
  CompareScalar(dst, src0, src1, mode, mask, repeatTimes, p, where);
}

// Into the core's comparison register, one repeat; and access to that register.
template <typename T, bool isSetMask = true>
void Compare(const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE mode, lanes::GivenMask mask,
             const BinaryRepeatParams& p, Where where = Where::Here()) {
  constexpr uint32_t kWidth = 256 / sizeof(T);
  const lanes::Operand<T> a{src0, p.src0BlkStride, p.src0RepStride}, b{src1, p.src1BlkStride, p.src1RepStride};
  T x[lanes::kMostLanes], y[lanes::kMostLanes];
  lanes::Tell(a, 0, lanes::First(kWidth), kWidth, false, "Compare", where);
  lanes::Tell(b, 0, lanes::First(kWidth), kWidth, false, "Compare", where);
  lanes::Collect(a, 0, kWidth, x);
  lanes::Collect(b, 0, kWidth, y);
  lanes::loops::Compare(twin::ascendc::ThisCore().compare_bits, x, y, mode, kWidth);
}
template <typename T>
void GetCmpMask(const LocalTensor<T>& dst, Where where = Where::Here()) {
  policy::VectorOut(dst, 16 / sizeof(T), "GetCmpMask", where);
  std::memcpy(dst.data(), twin::ascendc::ThisCore().compare_bits, 16);
}
template <typename T>
void SetCmpMask(const LocalTensor<T>& src, Where where = Where::Here()) {
  policy::VectorIn(src, 16 / sizeof(T), "SetCmpMask", where);
  std::memcpy(twin::ascendc::ThisCore().compare_bits, src.data(), 16);
}

namespace compare {

// One bit per element.
template <typename T>
using Word = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
template <typename T>
void Pick(T* dst, const T* first, const T* second, const uint8_t* bits, size_t n) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Select supports elements of 2 or 4 bytes");
  lanes::loops::Select(reinterpret_cast<Word<T>*>(dst), reinterpret_cast<const Word<T>*>(first),
                       reinterpret_cast<const Word<T>*>(second), bits, n);
}
template <typename T>
void PickOr(T* dst, const T* first, T second, const uint8_t* bits, size_t n) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Select supports elements of 2 or 4 bytes");
  lanes::loops::SelectScalar(reinterpret_cast<Word<T>*>(dst), reinterpret_cast<const Word<T>*>(first),
                             std::bit_cast<Word<T>>(second), bits, n);
}
// CMPMASK_SPR starts over with the same bits at each repeat.
inline bool StartsAnew(SELMODE mode) { return mode == SELMODE::VSEL_CMPMASK_SPR; }
inline void WantsTensor(SELMODE mode, Where where) {
  policy::Wants(mode != SELMODE::VSEL_TENSOR_SCALAR_MODE, "TENSOR_SCALAR_MODE takes a number, not a second tensor",
                "Select", where);
}
inline void WantsNumber(SELMODE mode, Where where) {
  policy::Wants(mode == SELMODE::VSEL_TENSOR_SCALAR_MODE, "a number for src1 needs TENSOR_SCALAR_MODE", "Select",
                where);
}

}  // namespace compare

// src0's element where the bit is set, else src1's.
template <typename T, typename U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
            const LocalTensor<T>& src1, SELMODE mode, uint32_t count, Where where = Where::Here()) {
  const bool anew = compare::StartsAnew(mode);
  constexpr uint64_t kWidth = 256 / sizeof(T);
  compare::WantsTensor(mode, where);
  policy::Reads(PIPE_V, selMask.bytes_begin(), ((anew ? std::min<uint64_t>(count, kWidth) : count) + 7) / 8, "Select",
                where);
  lanes::ByCount<false>(
      "Select", count, where,
      [&](T* d, const T* a, const T* b, size_t n) {
        for (size_t i = 0; i < n; i += kWidth) {
          compare::Pick(d + i, a + i, b + i, selMask.bytes_begin() + (anew ? 0 : i / 8),
                        std::min<size_t>(kWidth, n - i));
        }
      },
      dst, src0, src1);
}
template <typename T, typename U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T src1, SELMODE mode,
            uint32_t count, Where where = Where::Here()) {
  compare::WantsNumber(mode, where);
  policy::Reads(PIPE_V, selMask.bytes_begin(), (count + 7) / 8, "Select", where);
  lanes::ByCount<false>(
      "Select", count, where,
      [&](T* d, const T* a, size_t n) { compare::PickOr(d, a, src1, selMask.bytes_begin(), n); }, dst, src0);
}
// By repeats: the bits of one follow those of the previous one.
template <typename T, typename U, bool isSetMask = true>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
            const LocalTensor<T>& src1, SELMODE mode, lanes::GivenMask mask, uint8_t repeatTimes,
            const BinaryRepeatParams& p, Where where = Where::Here()) {
  constexpr uint32_t kBytes = 256 / sizeof(T) / 8;
  compare::WantsTensor(mode, where);
  const uint8_t* bits = selMask.bytes_begin();
  policy::Reads(PIPE_V, bits, compare::StartsAnew(mode) ? kBytes : repeatTimes * kBytes, "Select", where);
  lanes::ByRepeat<false, true>(
      "Select", lanes::Given<isSetMask>(mask), repeatTimes, where,
      [&](T* d, const T* a, const T* b, size_t n) {
        compare::Pick(d, a, b, bits, n);
        if (!compare::StartsAnew(mode)) bits += kBytes;
      },
      lanes::Operand<T>{dst, p.dstBlkStride, p.dstRepStride}, lanes::Operand<T>{src0, p.src0BlkStride, p.src0RepStride},
      lanes::Operand<T>{src1, p.src1BlkStride, p.src1RepStride});
}
template <typename T, typename U, bool isSetMask = true>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T src1, SELMODE mode,
            lanes::GivenMask mask, uint8_t repeatTimes, const BinaryRepeatParams& p, Where where = Where::Here()) {
  constexpr uint32_t kBytes = 256 / sizeof(T) / 8;
  compare::WantsNumber(mode, where);
  const uint8_t* bits = selMask.bytes_begin();
  policy::Reads(PIPE_V, bits, repeatTimes * kBytes, "Select", where);
  lanes::ByRepeat<false, true>(
      "Select", lanes::Given<isSetMask>(mask), repeatTimes, where,
      [&](T* d, const T* a, size_t n) {
        compare::PickOr(d, a, src1, bits, n);
        bits += kBytes;
      },
      lanes::Operand<T>{dst, p.dstBlkStride, p.dstRepStride},
      lanes::Operand<T>{src0, p.src0BlkStride, p.src0RepStride});
}
// By the core's comparison register, which starts over at each repeat; lanes as set in the mask register.
template <typename T, SELMODE selMode>
void Select(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint8_t repeatTimes,
            const BinaryRepeatParams& p, Where where = Where::Here()) {
  static_assert(selMode == SELMODE::VSEL_CMPMASK_SPR, "only VSEL_CMPMASK_SPR uses the register");
  lanes::ByRepeat<false, true>(
      "Select", lanes::FromRegister(), repeatTimes, where,
      [&](T* d, const T* a, const T* b, size_t n) {
        compare::Pick(d, a, b, twin::ascendc::ThisCore().compare_bits, n);
      },
      lanes::Operand<T>{dst, p.dstBlkStride, p.dstRepStride}, lanes::Operand<T>{src0, p.src0BlkStride, p.src0RepStride},
      lanes::Operand<T>{src1, p.src1BlkStride, p.src1RepStride});
}

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
