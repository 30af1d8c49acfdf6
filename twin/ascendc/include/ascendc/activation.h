// Element-wise activations: Silu, Swish, Gelu, SwiGLU. Temporary buffers are accepted and ignored.
#pragma once

#include "ascendc/lanes.h"

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {

// x · sigmoid(x)
template <typename T, bool isReuseSource = false>
void Silu(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t dataSize, Where where = Where::Here()) {
  lanes::ByCount<false>(
      "Silu", dataSize, where, [](T* d, const T* a, size_t n) { lanes::loops::Swish(d, a, 1.0f, n); }, dst, src);
}
// x · sigmoid(beta · x)
template <typename T, bool isReuseSource = false>
void Swish(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t dataSize, const T& scalarValue,
           Where where = Where::Here()) {
  lanes::ByCount<false>(
      "Swish", dataSize, where,
      [&](T* d, const T* a, size_t n) { lanes::loops::Swish(d, a, static_cast<float>(scalarValue), n); }, dst, src);
}

// The tanh approximation: x / (1 + exp(-2 sqrt(2/pi) (x + 0.044715 x^3))).
template <typename T, bool highPrecision = false, bool highPerformance = false>
void Gelu(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t dataSize, Where where = Where::Here()) {
  lanes::ByCount<false>(
      "Gelu", dataSize, where, [](T* d, const T* a, size_t n) { lanes::loops::Gelu(d, a, n); }, dst, src);
}
template <typename T, bool highPrecision = false, bool highPerformance = false>
void Gelu(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,
          const uint32_t dataSize, Where where = Where::Here()) {
  Gelu<T, highPrecision, highPerformance>(dst, src, dataSize, where);
}

// src0 · src1 · sigmoid(beta · src1)
template <typename T, bool isReuseSource = false>
void SwiGLU(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const float& scalarValue,
            const uint32_t calCount, Where where = Where::Here()) {
  lanes::ByCount<false>(
      "SwiGLU", calCount, where,
      [&](T* d, const T* a, const T* b, size_t n) { lanes::loops::SwiGLU(d, a, b, scalarValue, n); }, dst, src0, src1);
}
template <typename T, bool isReuseSource = false>
void SwiGLU(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const float& scalarValue,
            const LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t calCount, Where where = Where::Here()) {
  SwiGLU<T, isReuseSource>(dst, src0, src1, scalarValue, calCount, where);
}

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
