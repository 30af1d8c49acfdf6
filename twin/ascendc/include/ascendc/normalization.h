// Row-wise, computed in float: RmsNorm, LayerNorm, Sum, Mean. Temporary buffers are accepted and ignored;
// only the shape is read from a tiling.
#pragma once

#include <cmath>
#include <vector>

#include "ascendc/lanes.h"

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {

struct RmsNormTiling {
  uint32_t bLength = 0, sLength = 0, hLength = 0,
           originalHLength = 0;  // rows of hLength elements, of which originalHLength are valid
};
struct LayerNormTiling {
  uint32_t bLength = 0, sLength = 0, hLength = 0, originalHLength = 0;
};
struct SumParams {
  uint32_t outter = 1, inner = 0, n = 0;  // rows of inner elements, of which n are valid
};
using MeanParams = SumParams;

namespace rows {

template <typename T>
std::vector<float> Read(const LocalTensor<T>& tensor, uint64_t first, uint64_t count, const char* name, Where where) {
  const T* x = tensor.data() + first;
  policy::Reads(PIPE_V, x, count * sizeof(T), name, where);
  return std::vector<float>(x, x + count);
}
template <typename T>
void Write(const LocalTensor<T>& tensor, uint64_t first, const std::vector<float>& values, const char* name,
           Where where) {
  policy::Writes(PIPE_V, tensor.data() + first, values.size() * sizeof(T), name, where);
  std::copy(values.begin(), values.end(), tensor.data() + first);
}
inline float Mean(const std::vector<float>& row) {
  return lanes::loops::Sum(row.data(), row.size()) / static_cast<float>(row.size());
}
inline float MeanSquare(std::vector<float> row) {
  for (float& value : row) value *= value;
  return Mean(row);
}
template <typename Tiling>
uint32_t Columns(const Tiling& tiling) {
  return tiling.originalHLength == 0 ? tiling.hLength : tiling.originalHLength;
}

}  // namespace rows

// gamma · x / sqrt(mean(x²) + epsilon)
template <typename T, bool isBasicBlock = false>
void RmsNorm(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& gamma, const T epsilon,
             const RmsNormTiling& tiling, Where where = Where::Here()) {
  const uint32_t columns = rows::Columns(tiling);
  const std::vector<float> weight = rows::Read(gamma, 0, columns, "RmsNorm", where);
  for (uint64_t i = 0; i < uint64_t{tiling.bLength} * tiling.sLength; ++i) {
    std::vector<float> row = rows::Read(src, i * tiling.hLength, columns, "RmsNorm", where);
    const float scale = 1 / std::sqrt(rows::MeanSquare(row) + static_cast<float>(epsilon));
    for (uint32_t k = 0; k < columns; ++k) row[k] *= scale * weight[k];
    rows::Write(dst, i * tiling.hLength, row, "RmsNorm", where);
  }
}
template <typename T, bool isBasicBlock = false>
void RmsNorm(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& gamma,
             const LocalTensor<uint8_t>& sharedTmpBuffer, const T epsilon, const RmsNormTiling& tiling,
             Where where = Where::Here()) {
  RmsNorm<T, isBasicBlock>(dst, src, gamma, epsilon, tiling, where);
}

// gamma · (x - mean) / sqrt(variance + epsilon) + beta; a row's mean and variance are one element each.
template <typename T, bool isReuseSource = false>
void LayerNorm(const LocalTensor<T>& output, const LocalTensor<T>& outputMean, const LocalTensor<T>& outputVariance,
               const LocalTensor<T>& inputX, const LocalTensor<T>& gamma, const LocalTensor<T>& beta, const T epsilon,
               LayerNormTiling& tiling, Where where = Where::Here()) {
  const char* const name = "LayerNorm";
  const uint32_t columns = rows::Columns(tiling);
  const std::vector<float> weight = rows::Read(gamma, 0, columns, name, where),
                           bias = rows::Read(beta, 0, columns, name, where);
  for (uint64_t i = 0; i < uint64_t{tiling.bLength} * tiling.sLength; ++i) {
    std::vector<float> row = rows::Read(inputX, i * tiling.hLength, columns, name, where);
    const float mean = rows::Mean(row);
    for (float& value : row) value -= mean;
    const float variance = rows::MeanSquare(row), scale = 1 / std::sqrt(variance + static_cast<float>(epsilon));
    for (uint32_t k = 0; k < columns; ++k) row[k] = row[k] * scale * weight[k] + bias[k];
    rows::Write(output, i * tiling.hLength, row, name, where);
    rows::Write(outputMean, i, {mean}, name, where);
    rows::Write(outputVariance, i, {variance}, name, where);
  }
}
template <typename T, bool isReuseSource = false>
void LayerNorm(const LocalTensor<T>& output, const LocalTensor<T>& outputMean, const LocalTensor<T>& outputVariance,
               const LocalTensor<T>& inputX, const LocalTensor<T>& gamma, const LocalTensor<T>& beta,
               const LocalTensor<uint8_t>& sharedTmpBuffer, const T epsilon, LayerNormTiling& tiling,
               Where where = Where::Here()) {
  LayerNorm<T, isReuseSource>(output, outputMean, outputVariance, inputX, gamma, beta, epsilon, tiling, where);
}

// One element per row: its sum or mean.
#define TWIN_ROWS(name, divided_by)                                                                          \
  template <typename T>                                                                                      \
  void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const SumParams& params,                   \
            Where where = Where::Here()) {                                                                   \
    policy::Wants(params.inner * sizeof(T) % 32 == 0 && params.n >= 1 && params.n <= params.inner,           \
                  "a row must be a multiple of 32 bytes with 1 to all of its elements valid", #name, where); \
    for (uint32_t row = 0; row < params.outter; ++row) {                                                     \
      const LocalTensor<T> line = src[row * params.inner];                                                   \
      policy::VectorIn(line, params.n, #name, where);                                                        \
      const float sum = static_cast<float>(lanes::loops::Sum(line.data(), params.n));                        \
      rows::Write(dst, row, {sum / static_cast<float>(divided_by)}, #name, where);                           \
    }                                                                                                        \
  }                                                                                                          \
  template <typename T>                                                                                      \
  void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmp,     \
            const SumParams& params, Where where = Where::Here()) {                                          \
    name<T>(dst, src, params, where);                                                                        \
  }
TWIN_ROWS(Sum, 1)
TWIN_ROWS(Mean, params.n)
#undef TWIN_ROWS

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
