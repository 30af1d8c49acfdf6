// Functions of one tensor, and Cast.
#pragma once

#include "ascendc/lanes.h"

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {

#define TWIN_UNARY(name)                                                                                               \
  template <typename T>                                                                                                \
  void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count, Where where = Where::Here()) { \
    lanes::ByCount<false>(                                                                                             \
        #name, count, where, [](T* d, const T* a, size_t n) { lanes::loops::name(d, a, n); }, dst, src);               \
  }                                                                                                                    \
  template <typename T, bool isSetMask = true>                                                                         \
  void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, lanes::GivenMask mask, const uint8_t repeatTimes,    \
            const UnaryRepeatParams& p, Where where = Where::Here()) {                                                 \
    lanes::ByRepeat<false>(                                                                                            \
        #name, lanes::Given<isSetMask>(mask), repeatTimes, where,                                                      \
        [](T* d, const T* a, size_t n) { lanes::loops::name(d, a, n); },                                               \
        lanes::Operand<T>{dst, p.dstBlkStride, p.dstRepStride},                                                        \
        lanes::Operand<T>{src, p.srcBlkStride, p.srcRepStride});                                                       \
  }
TWIN_UNARY(Exp)
TWIN_UNARY(Ln)
TWIN_UNARY(Abs)
TWIN_UNARY(Reciprocal)
TWIN_UNARY(Rsqrt)
TWIN_UNARY(Sqrt)
TWIN_UNARY(Not)
TWIN_UNARY(Relu)
#undef TWIN_UNARY

namespace lanes {

// These pairs lose what CAST_NONE promises to preserve.
template <typename To, typename From>
void WantsMode(RoundMode mode, Where where) {
  constexpr bool kNeedsMode =
      (std::is_same_v<From, half> && (std::is_same_v<To, int16_t> || std::is_same_v<To, int32_t>)) ||
      (std::is_same_v<From, float> && (std::is_integral_v<To> || std::is_same_v<To, bfloat16_t>));
  policy::Wants(!kNeedsMode || mode != RoundMode::CAST_NONE,
                "this pair of types needs a rounding mode other than CAST_NONE", "Cast", where);
  constexpr bool kOdd = std::is_same_v<From, float> && std::is_same_v<To, half>;
  policy::Wants(kOdd || mode != RoundMode::CAST_ODD, "CAST_ODD is only for float to half", "Cast", where);
}

}  // namespace lanes

template <typename T, typename U>
void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& mode, const uint32_t count,
          Where where = Where::Here()) {
  lanes::WantsMode<T, U>(mode, where);
  lanes::ByCount<false>(
      "Cast", count, where, [&](T* d, const U* a, size_t n) { lanes::loops::Cast(d, a, mode, n); }, dst, src);
}
template <typename T, typename U, bool isSetMask = true>
void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& mode, lanes::GivenMask mask,
          const uint8_t repeatTimes, const UnaryRepeatParams& p, Where where = Where::Here()) {
  lanes::WantsMode<T, U>(mode, where);
  lanes::ByRepeat<false>(
      "Cast", lanes::Given<isSetMask>(mask), repeatTimes, where,
      [&](T* d, const U* a, size_t n) { lanes::loops::Cast(d, a, mode, n); },
      lanes::Operand<T>{dst, p.dstBlkStride, p.dstRepStride}, lanes::Operand<U>{src, p.srcBlkStride, p.srcRepStride});
}

// The scale of casts from int32 to half.
inline void SetDeqScale(half scale) { twin::ascendc::ThisCore().deq_scale = scale; }

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
