// Functions of two tensors: by count, or by mask and repeat, where the mask is a number or a bit map.
#pragma once

#include "ascendc/lanes.h"

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {

#define TWIN_BINARY(name, reads_dst)                                                                                  \
  template <typename T>                                                                                               \
  void name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const int32_t& count,  \
            Where where = Where::Here()) {                                                                            \
    lanes::ByCount<reads_dst>(                                                                                        \
        #name, count, where, [](T* d, const T* a, const T* b, size_t n) { lanes::loops::name(d, a, b, n); }, dst,     \
        src0, src1);                                                                                                  \
  }                                                                                                                   \
  template <typename T, bool isSetMask = true>                                                                        \
  void name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, lanes::GivenMask mask, \
            const uint8_t repeatTimes, const BinaryRepeatParams& p, Where where = Where::Here()) {                    \
    lanes::ByRepeat<reads_dst>(                                                                                       \
        #name, lanes::Given<isSetMask>(mask), repeatTimes, where,                                                     \
        [](T* d, const T* a, const T* b, size_t n) { lanes::loops::name(d, a, b, n); },                               \
        lanes::Operand<T>{dst, p.dstBlkStride, p.dstRepStride},                                                       \
        lanes::Operand<T>{src0, p.src0BlkStride, p.src0RepStride},                                                    \
        lanes::Operand<T>{src1, p.src1BlkStride, p.src1RepStride});                                                   \
  }
TWIN_BINARY(Add, false)
TWIN_BINARY(Sub, false)
TWIN_BINARY(Mul, false)
TWIN_BINARY(Div, false)
TWIN_BINARY(Max, false)
TWIN_BINARY(Min, false)
TWIN_BINARY(And, false)
TWIN_BINARY(Or, false)
TWIN_BINARY(AddRelu, false)
TWIN_BINARY(SubRelu, false)
TWIN_BINARY(MulAddDst, true)
TWIN_BINARY(FusedMulAdd, true)
TWIN_BINARY(FusedMulAddRelu, true)
#undef TWIN_BINARY

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
