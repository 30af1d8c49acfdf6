// Row-wise softmax, computed in float. A row's sum and maximum each fill a block of 32 bytes. Row-major (ND)
// only; temporary buffers and tilings are accepted and ignored.
#pragma once

#include <vector>

#include "ascendc/lanes.h"
#include "ascendc/tilings.h"

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {

struct SoftMaxShapeInfo {
  uint32_t srcM = 0, srcK = 0;        // as stored
  uint32_t oriSrcM = 0, oriSrcK = 0;  // of which these are valid
};

namespace softmax {

// As given, or from the tensor's own shape.
template <typename T>
SoftMaxShapeInfo ShapeOf(const LocalTensor<T>& src, const SoftMaxShapeInfo& given, const char* name, Where where) {
  if (given.srcK != 0) return given;
  const ShapeInfo info = src.GetShapeInfo();
  if (info.shapeDim == 0) policy::Fail(name, "no shape: pass a SoftMaxShapeInfo, or call SetShapeInfo", where);
  const uint32_t columns = info.shape[info.shapeDim - 1];
  const uint32_t rows = static_cast<uint32_t>(GetShapeSize(info)) / columns;
  return {rows, columns, rows, columns};
}

template <typename T>
std::vector<float> Row(const LocalTensor<T>& tensor, uint32_t row, const SoftMaxShapeInfo& shape, const char* name,
                       Where where) {
  const T* x = tensor.data() + uint64_t{row} * shape.srcK;
  policy::Reads(PIPE_V, x, shape.oriSrcK * sizeof(T), name, where);
  return std::vector<float>(x, x + shape.oriSrcK);
}
template <typename T>
void PutRow(const LocalTensor<T>& tensor, uint32_t row, const SoftMaxShapeInfo& shape, const std::vector<float>& values,
            const char* name, Where where) {
  T* y = tensor.data() + uint64_t{row} * shape.srcK;
  policy::Writes(PIPE_V, y, shape.oriSrcK * sizeof(T), name, where);
  std::copy(values.begin(), values.end(), y);
}
template <typename T>
void PutBlock(const LocalTensor<T>& tensor, uint32_t row, float value, const char* name, Where where) {
  constexpr uint32_t kBlock = 32 / sizeof(T);
  T* block = tensor.data() + row * kBlock;
  policy::Writes(PIPE_V, block, 32, name, where);
  std::fill(block, block + kBlock, static_cast<T>(value));
}
template <typename T>
float Block(const LocalTensor<T>& tensor, uint32_t row, const char* name, Where where) {
  const T* block = tensor.data() + row * (32 / sizeof(T));
  policy::Reads(PIPE_V, block, 32, name, where);
  return static_cast<float>(*block);
}

// exp(x - largest) in place; returns the sum.
inline float ExpAndSum(std::vector<float>* row, float largest) {
  lanes::loops::Adds(row->data(), row->data(), -largest, row->size());
  lanes::loops::Exp(row->data(), row->data(), row->size());
  return lanes::loops::Sum(row->data(), row->size());
}
inline float Largest(const std::vector<float>& row) { return lanes::loops::Largest(row.data(), row.size()).value; }

}  // namespace softmax

// dst = exp(src - max) / sum. Sum and maximum may be float where the rows are half.
template <typename T, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false, typename U>
void SoftMax(const LocalTensor<T>& dst, const LocalTensor<U>& sum, const LocalTensor<U>& max, const LocalTensor<T>& src,
             const SoftMaxTiling&, const SoftMaxShapeInfo& given = {}, Where where = Where::Here()) {
  static_assert(!isDataFormatNZ, "the host supports only ND (row-major)");
  const SoftMaxShapeInfo shape = softmax::ShapeOf(src, given, "SoftMax", where);
  for (uint32_t i = 0; i < shape.oriSrcM; ++i) {
    std::vector<float> row = softmax::Row(src, i, shape, "SoftMax", where);
    const float largest = softmax::Largest(row), total = softmax::ExpAndSum(&row, largest);
    for (float& value : row) value /= total;
    softmax::PutRow(dst, i, shape, row, "SoftMax", where);
    softmax::PutBlock(sum, i, total, "SoftMax", where);
    softmax::PutBlock(max, i, largest, "SoftMax", where);
  }
}
template <typename T, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false, typename U>
void SoftMax(const LocalTensor<T>& dst, const LocalTensor<U>& sum, const LocalTensor<U>& max, const LocalTensor<T>& src,
             const LocalTensor<uint8_t>& sharedTmpBuffer, const SoftMaxTiling& tiling,
             const SoftMaxShapeInfo& given = {}, Where where = Where::Here()) {
  SoftMax<T, isReuseSource, isBasicBlock, isDataFormatNZ>(dst, sum, max, src, tiling, given, where);
}

// The same with given sums and maxima.
template <typename T, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false, typename U>
void SimpleSoftMax(const LocalTensor<T>& dst, const LocalTensor<U>& inSum, const LocalTensor<U>& inMax,
                   const LocalTensor<T>& src, const SoftMaxTiling&, const SoftMaxShapeInfo& given = {},
                   Where where = Where::Here()) {
  static_assert(!isDataFormatNZ, "the host supports only ND (row-major)");
  const SoftMaxShapeInfo shape = softmax::ShapeOf(src, given, "SimpleSoftMax", where);
  for (uint32_t i = 0; i < shape.oriSrcM; ++i) {
    std::vector<float> row = softmax::Row(src, i, shape, "SimpleSoftMax", where);
    softmax::ExpAndSum(&row, softmax::Block(inMax, i, "SimpleSoftMax", where));
    const float total = softmax::Block(inSum, i, "SimpleSoftMax", where);
    for (float& value : row) value /= total;
    softmax::PutRow(dst, i, shape, row, "SimpleSoftMax", where);
  }
}

// For rows that arrive in pieces. dst = exp(src - max), not divided; with isUpdate, max and sum continue from
// their previous values, and expMax is the factor that rescales those.
template <typename T, bool isUpdate = false, bool isReuseSource = false, bool isBasicBlock = false,
          bool isDataFormatNZ = false, typename U>
void SoftmaxFlashV2(const LocalTensor<T>& dst, const LocalTensor<U>& outSum, const LocalTensor<U>& outMax,
                    const LocalTensor<T>& src, const LocalTensor<T>& outExpMax, const LocalTensor<U>& inSum,
                    const LocalTensor<U>& inMax, const SoftMaxTiling&, const SoftMaxShapeInfo& given = {},
                    Where where = Where::Here()) {
  static_assert(!isDataFormatNZ, "the host supports only ND (row-major)");
  const char* const name = "SoftmaxFlashV2";
  const SoftMaxShapeInfo shape = softmax::ShapeOf(src, given, name, where);
  for (uint32_t i = 0; i < shape.oriSrcM; ++i) {
    std::vector<float> row = softmax::Row(src, i, shape, name, where);
    float largest = softmax::Largest(row), before = 0;
    if constexpr (isUpdate) {
      const float was = softmax::Block(inMax, i, name, where);
      largest = std::max(largest, was);
      float shrinks = was - largest;
      lanes::loops::Exp(&shrinks, &shrinks, 1);
      before = shrinks * softmax::Block(inSum, i, name, where);
      softmax::PutBlock(outExpMax, i, shrinks, name, where);
    }
    const float total = before + softmax::ExpAndSum(&row, largest);
    softmax::PutRow(dst, i, shape, row, name, where);
    softmax::PutBlock(outSum, i, total, name, where);
    softmax::PutBlock(outMax, i, largest, name, where);
  }
}
template <typename T, bool isUpdate = false, bool isReuseSource = false, bool isBasicBlock = false,
          bool isDataFormatNZ = false, typename U>
void SoftmaxFlashV2(const LocalTensor<T>& dst, const LocalTensor<U>& outSum, const LocalTensor<U>& outMax,
                    const LocalTensor<T>& src, const LocalTensor<T>& outExpMax, const LocalTensor<U>& inSum,
                    const LocalTensor<U>& inMax, const LocalTensor<uint8_t>& sharedTmpBuffer,
                    const SoftMaxTiling& tiling, const SoftMaxShapeInfo& given = {}, Where where = Where::Here()) {
  SoftmaxFlashV2<T, isUpdate, isReuseSource, isBasicBlock, isDataFormatNZ>(dst, outSum, outMax, src, outExpMax, inSum,
                                                                           inMax, tiling, given, where);
}

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
