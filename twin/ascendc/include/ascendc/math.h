// Element-wise functions that the device composes of several instructions. A temporary buffer is accepted and
// ignored; without a count they process the whole source.
#pragma once

#include "ascendc/lanes.h"

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {

#define TWIN_MATH(name)                                                                                        \
  template <typename T, bool isReuseSource = false>                                                            \
  void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t calCount,                     \
            Where where = Where::Here()) {                                                                     \
    lanes::ByCount<false>(                                                                                     \
        #name, calCount, where, [](T* d, const T* a, size_t n) { lanes::loops::name(d, a, n); }, dst, src);    \
  }                                                                                                            \
  template <typename T, bool isReuseSource = false>                                                            \
  void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer, \
            const uint32_t calCount, Where where = Where::Here()) {                                            \
    name<T, isReuseSource>(dst, src, calCount, where);                                                         \
  }                                                                                                            \
  template <typename T, bool isReuseSource = false>                                                            \
  void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer, \
            Where where = Where::Here()) {                                                                     \
    name<T, isReuseSource>(dst, src, src.GetSize(), where);                                                    \
  }                                                                                                            \
  template <typename T, bool isReuseSource = false>                                                            \
  void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, Where where = Where::Here()) {               \
    name<T, isReuseSource>(dst, src, src.GetSize(), where);                                                    \
  }
TWIN_MATH(Sin)
TWIN_MATH(Cos)
TWIN_MATH(Tan)
TWIN_MATH(Asin)
TWIN_MATH(Acos)
TWIN_MATH(Atan)
TWIN_MATH(Sinh)
TWIN_MATH(Cosh)
TWIN_MATH(Tanh)
TWIN_MATH(Asinh)
TWIN_MATH(Acosh)
TWIN_MATH(Atanh)
TWIN_MATH(Sigmoid)
TWIN_MATH(Erf)
TWIN_MATH(Erfc)
TWIN_MATH(Log)
TWIN_MATH(Log2)
TWIN_MATH(Log10)
TWIN_MATH(Ceil)
TWIN_MATH(Floor)
TWIN_MATH(Round)
TWIN_MATH(Trunc)
TWIN_MATH(Frac)
TWIN_MATH(Sign)
#undef TWIN_MATH

// Of two tensors: a power, and the remainder, which has the sign of the dividend.
#define TWIN_MATH(name)                                                                                              \
  template <typename T, bool isReuseSource = false>                                                                  \
  void name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,                       \
            const uint32_t calCount, Where where = Where::Here()) {                                                  \
    lanes::ByCount<false>(                                                                                           \
        #name, calCount, where, [](T* d, const T* a, const T* b, size_t n) { lanes::loops::name(d, a, b, n); }, dst, \
        src0, src1);                                                                                                 \
  }                                                                                                                  \
  template <typename T, bool isReuseSource = false>                                                                  \
  void name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,                       \
            const LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t calCount, Where where = Where::Here()) {     \
    name<T, isReuseSource>(dst, src0, src1, calCount, where);                                                        \
  }                                                                                                                  \
  template <typename T, bool isReuseSource = false>                                                                  \
  void name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,                       \
            Where where = Where::Here()) {                                                                           \
    name<T, isReuseSource>(dst, src0, src1, src0.GetSize(), where);                                                  \
  }
TWIN_MATH(Power)
TWIN_MATH(Fmod)
#undef TWIN_MATH
// Of a tensor and one number.
template <typename T, bool isReuseSource = false>
void Power(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const std::type_identity_t<T>& scalarValue,
           const uint32_t calCount, Where where = Where::Here()) {
  lanes::ByCount<false>(
      "Power", calCount, where, [&](T* d, const T* a, size_t n) { lanes::loops::Power(d, a, scalarValue, n); }, dst,
      src0);
}

// At least, or at most, a number; NaN stays.
#define TWIN_CLAMP(name, replaced)                                                                             \
  template <typename T, bool isReuseSource = false>                                                            \
  void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const std::type_identity_t<T> scalar,        \
            const uint32_t calCount, Where where = Where::Here()) {                                            \
    lanes::ByCount<false>(                                                                                     \
        #name, calCount, where,                                                                                \
        [&](T* d, const T* a, size_t n) {                                                                      \
          for (size_t i = 0; i < n; ++i) d[i] = static_cast<float>(a[i]) replaced scalar ? scalar : a[i];      \
        },                                                                                                     \
        dst, src);                                                                                             \
  }                                                                                                            \
  template <typename T, bool isReuseSource = false>                                                            \
  void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer, \
            const std::type_identity_t<T> scalar, const uint32_t calCount, Where where = Where::Here()) {      \
    name<T, isReuseSource>(dst, src, scalar, calCount, where);                                                 \
  }
TWIN_CLAMP(ClampMin, <)
TWIN_CLAMP(ClampMax, >)
#undef TWIN_CLAMP

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
