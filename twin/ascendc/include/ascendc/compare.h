// Comparisons into one bit an element, and selection by such bits.
#pragma once

#include "ascendc/lanes.h"

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {
namespace compare {

// Whole repeats only; what is left over is not compared. 32-bit integers know only equality.
template <typename T>
uint64_t Comparable(CMPMODE mode, uint32_t count, const char* name, Where where) {
  policy::Wants(count * sizeof(T) % 256 == 0,
                "the count is no multiple of 256 bytes: its rest is not compared", name, where);
  if (std::is_same_v<T, int32_t> && mode != CMPMODE::EQ)
    policy::Fail(name, "int32_t is compared for equality only", where);
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
void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1, CMPMODE mode,
                   uint32_t count, Where where = Where::Here()) {
  const uint64_t n = compare::Comparable<T>(mode, count, "CompareScalar", where);
  policy::VectorIn(src0, n, "CompareScalar", where);
  policy::VectorOut(dst, n / 8 / sizeof(U), "CompareScalar", where);
  lanes::loops::CompareScalar(dst.bytes_begin(), src0.data(), src1, mode, n);
}
template <typename T, typename U>
void Compares(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1, CMPMODE mode,
              uint32_t count, Where where = Where::Here()) {
  CompareScalar(dst, src0, src1, mode, count, where);
}
// By repeats: every lane is compared whatever the mask says, a repeat's bits follow those of the last.
template <typename T, typename U>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE mode,
             const uint64_t mask, uint8_t repeatTimes, const BinaryRepeatParams& p,
             Where where = Where::Here()) {
  constexpr uint32_t kWidth = 256 / sizeof(T);
  const lanes::Mask all = lanes::First(kWidth);
  for (uint32_t repeat = 0; repeat < repeatTimes; ++repeat) {
    const lanes::Operand<T> a{src0, p.src0BlkStride, p.src0RepStride},
        b{src1, p.src1BlkStride, p.src1RepStride};
    lanes::Tell(a, repeat, all, kWidth, false, "Compare", where);
    lanes::Tell(b, repeat, all, kWidth, false, "Compare", where);
    T x[lanes::kMostLanes], y[lanes::kMostLanes];
    lanes::Collect(a, repeat, kWidth, x);
    lanes::Collect(b, repeat, kWidth, y);
    uint8_t* bits = dst.bytes_begin() + repeat * (kWidth / 8);
    policy::Writes(PIPE_V, bits, kWidth / 8, "Compare", where);
    lanes::loops::Compare(bits, x, y, mode, kWidth);
  }
}
// Into the core's comparison register, one repeat.
template <typename T>
void Compare(const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE mode, const uint64_t mask,
             const BinaryRepeatParams& p, Where where = Where::Here()) {
  constexpr uint32_t kWidth = 256 / sizeof(T);
  policy::VectorIn(src0, kWidth, "Compare", where);
  policy::VectorIn(src1, kWidth, "Compare", where);
  lanes::loops::Compare(twin::ascendc::ThisCore().compare_bits, src0.data(), src1.data(), mode, kWidth);
}

// Where the bit is set src0's element, else src1's. CMPMASK_SPR starts anew with the same bits at each
// repeat.
template <typename T, typename U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
            const LocalTensor<T>& src1, SELMODE mode, uint32_t count, Where where = Where::Here()) {
  const bool repeated = mode == SELMODE::VSEL_CMPMASK_SPR;
  const uint64_t lanes = 256 / sizeof(T), bits = repeated ? std::min<uint64_t>(count, lanes) : count;
  policy::Wants(mode != SELMODE::VSEL_TENSOR_SCALAR_MODE,
                "TENSOR_SCALAR_MODE takes a number, not a second tensor", "Select", where);
  policy::Reads(PIPE_V, selMask.bytes_begin(), (bits + 7) / 8, "Select", where);
  lanes::ByCount<false>(
      "Select", count, where,
      [&](T* d, const T* a, const T* b, size_t n) {
        for (size_t i = 0; i < n; ++i) {
          const size_t k = repeated ? i % lanes : i;
          d[i] = (selMask.bytes_begin()[k / 8] >> (k % 8) & 1) != 0 ? a[i] : b[i];
        }
      },
      dst, src0, src1);
}
template <typename T, typename U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T src1,
            SELMODE mode, uint32_t count, Where where = Where::Here()) {
  policy::Wants(mode == SELMODE::VSEL_TENSOR_SCALAR_MODE, "a number for src1 wants TENSOR_SCALAR_MODE",
                "Select", where);
  policy::Reads(PIPE_V, selMask.bytes_begin(), (count + 7) / 8, "Select", where);
  lanes::ByCount<false>(
      "Select", count, where,
      [&](T* d, const T* a, size_t n) {
        for (size_t i = 0; i < n; ++i)
          d[i] = (selMask.bytes_begin()[i / 8] >> (i % 8) & 1) != 0 ? a[i] : src1;
      },
      dst, src0);
}

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
