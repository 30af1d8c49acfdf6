// Functions that the device composes of several instructions. Those with a temporary buffer take and ignore
// it.
#pragma once

#include "ascendc/lanes.h"

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {

#define TWIN_MATH(name)                                                                                     \
  template <typename T, bool isReuseSource = false>                                                         \
  void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t calCount,                  \
            Where where = Where::Here()) {                                                                  \
    lanes::ByCount<false>(                                                                                  \
        #name, calCount, where, [](T* d, const T* a, size_t n) { lanes::loops::name(d, a, n); }, dst, src); \
  }                                                                                                         \
  template <typename T, bool isReuseSource = false>                                                         \
  void name(const LocalTensor<T>& dst, const LocalTensor<T>& src,                                           \
            const LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t calCount,                           \
            Where where = Where::Here()) {                                                                  \
    name<T, isReuseSource>(dst, src, calCount, where);                                                      \
  }
TWIN_MATH(Sin)
TWIN_MATH(Cos)
TWIN_MATH(Tan)
TWIN_MATH(Tanh)
TWIN_MATH(Sigmoid)
TWIN_MATH(Erf)
#undef TWIN_MATH

// src0 · src1 · sigmoid(beta · src1)
template <typename T, bool isReuseSource = false>
void SwiGLU(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
            const float& scalarValue, const uint32_t calCount, Where where = Where::Here()) {
  lanes::ByCount<false>(
      "SwiGLU", calCount, where,
      [&](T* d, const T* a, const T* b, size_t n) {
        for (size_t i = 0; i < n; ++i) {
          float s = static_cast<float>(b[i]) * scalarValue;
          lanes::loops::Sigmoid(&s, &s, 1);
          d[i] = static_cast<T>(static_cast<float>(a[i]) * static_cast<float>(b[i]) * s);
        }
      },
      dst, src0, src1);
}

struct SoftMaxTiling {};
struct SoftMaxShapeInfo {
  uint32_t srcM = 0, srcK = 0;        // as they lie
  uint32_t oriSrcM = 0, oriSrcK = 0;  // of which these count
};

// Each row: dst = exp(src - max) / sum; a row's maximum and sum fill a block of 32 bytes each.
template <typename T, bool isReuseSource = false, bool isBasicBlock = false>
void SoftMax(const LocalTensor<T>& dst, const LocalTensor<T>& sum, const LocalTensor<T>& max,
             const LocalTensor<T>& src, const SoftMaxTiling&, const SoftMaxShapeInfo& shape,
             Where where = Where::Here()) {
  constexpr uint32_t kBlock = 32 / sizeof(T);
  policy::VectorOut(sum, shape.srcM * kBlock, "SoftMax", where);
  policy::VectorOut(max, shape.srcM * kBlock, "SoftMax", where);
  for (uint32_t row = 0; row < shape.oriSrcM; ++row) {
    const T* x = src.data() + uint64_t{row} * shape.srcK;
    policy::Reads(PIPE_V, x, shape.oriSrcK * sizeof(T), "SoftMax", where);
    const auto largest = static_cast<float>(lanes::loops::Largest(x, shape.oriSrcK).value);
    float total = 0;
    T* y = dst.data() + uint64_t{row} * shape.srcK;
    policy::Writes(PIPE_V, y, shape.oriSrcK * sizeof(T), "SoftMax", where);
    for (int pass = 0; pass < 2; ++pass) {
      for (uint32_t i = 0; i < shape.oriSrcK; ++i) {
        float e = static_cast<float>(x[i]) - largest;
        lanes::loops::Exp(&e, &e, 1);
        if (pass == 0) total += e;
        if (pass == 1) y[i] = static_cast<T>(e / total);
      }
    }
    std::fill(sum.data() + row * kBlock, sum.data() + (row + 1) * kBlock, static_cast<T>(total));
    std::fill(max.data() + row * kBlock, max.data() + (row + 1) * kBlock, static_cast<T>(largest));
  }
}

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
