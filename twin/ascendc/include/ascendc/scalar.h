// Functions of a tensor and a number.
#pragma once

#include "ascendc/lanes.h"

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {

#define TWIN_SCALAR(name, reads_dst)                                                                                   \
  template <typename T, bool isSetMask = true>                                                                         \
  void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const std::type_identity_t<T>& scalarValue,          \
            const int32_t& count, Where where = Where::Here()) {                                                       \
    lanes::ByCount<reads_dst>(                                                                                         \
        #name, count, where, [&](T* d, const T* a, size_t n) { lanes::loops::name(d, a, scalarValue, n); }, dst, src); \
  }                                                                                                                    \
  template <typename T, bool isSetMask = true>                                                                         \
  void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const std::type_identity_t<T>& scalarValue,          \
            lanes::GivenMask mask, const uint8_t repeatTimes, const UnaryRepeatParams& p,                              \
            Where where = Where::Here()) {                                                                             \
    lanes::ByRepeat<reads_dst>(                                                                                        \
        #name, lanes::Given<isSetMask>(mask), repeatTimes, where,                                                      \
        [&](T* d, const T* a, size_t n) { lanes::loops::name(d, a, scalarValue, n); },                                 \
        lanes::Operand<T>{dst, p.dstBlkStride, p.dstRepStride},                                                        \
        lanes::Operand<T>{src, p.srcBlkStride, p.srcRepStride});                                                       \
  }
TWIN_SCALAR(Adds, false)
TWIN_SCALAR(Muls, false)
TWIN_SCALAR(Maxs, false)
TWIN_SCALAR(Mins, false)
TWIN_SCALAR(ShiftLeft, false)
TWIN_SCALAR(LeakyRelu, false)
#undef TWIN_SCALAR

// With `roundEn`, rounds half up by the last bit shifted out.
template <typename T, bool isSetMask = true>
void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, const int32_t& count,
                bool roundEn = false, Where where = Where::Here()) {
  lanes::ByCount<false>(
      "ShiftRight", count, where,
      [&](T* d, const T* a, size_t n) { lanes::loops::ShiftRight(d, a, scalarValue, roundEn, n); }, dst, src);
}
template <typename T, bool isSetMask = true>
void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, lanes::GivenMask mask,
                const uint8_t repeatTimes, const UnaryRepeatParams& p, bool roundEn = false,
                Where where = Where::Here()) {
  lanes::ByRepeat<false>(
      "ShiftRight", lanes::Given<isSetMask>(mask), repeatTimes, where,
      [&](T* d, const T* a, size_t n) { lanes::loops::ShiftRight(d, a, scalarValue, roundEn, n); },
      lanes::Operand<T>{dst, p.dstBlkStride, p.dstRepStride}, lanes::Operand<T>{src, p.srcBlkStride, p.srcRepStride});
}

// dst += scalar · src; the source may be half where the sum is float.
template <typename T, typename U>
void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, const int32_t& count,
          Where where = Where::Here()) {
  lanes::ByCount<true>(
      "Axpy", count, where, [&](T* d, const U* a, size_t n) { lanes::loops::Axpy(d, a, scalarValue, n); }, dst, src);
}
template <typename T, typename U, bool isSetMask = true>
void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, lanes::GivenMask mask,
          const uint8_t repeatTimes, const UnaryRepeatParams& p, Where where = Where::Here()) {
  lanes::ByRepeat<true>(
      "Axpy", lanes::Given<isSetMask>(mask), repeatTimes, where,
      [&](T* d, const U* a, size_t n) { lanes::loops::Axpy(d, a, scalarValue, n); },
      lanes::Operand<T>{dst, p.dstBlkStride, p.dstRepStride}, lanes::Operand<U>{src, p.srcBlkStride, p.srcRepStride});
}

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
