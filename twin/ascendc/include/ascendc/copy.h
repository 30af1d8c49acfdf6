// Copies between global memory and the core's buffer, and within the buffer. Global to local runs on
// PIPE_MTE2, local to global on PIPE_MTE3, local to local on PIPE_V.
#pragma once

#include <algorithm>
#include <cstring>

#include "ascendc/atomic.h"
#include "ascendc/tensor.h"

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {
namespace copy {

// Copies `bytes` in; both ends are checked.
template <typename T>
void In(const LocalTensor<T>& dst, uint64_t dst_at, const GlobalTensor<T>& src, uint64_t src_at, uint64_t bytes,
        const char* function, Where where) {
  uint8_t* to = dst.bytes_begin() + dst_at;
  const auto* from = reinterpret_cast<const uint8_t*>(src.data()) + src_at;
  TWIN_TELL(ReadGlobal(PIPE_MTE2, from, bytes, src.from(), src.to(), policy::At(function, where)));
  policy::Writes(PIPE_MTE2, to, bytes, function, where);
  std::memcpy(to, from, bytes);
}

template <typename T>
void Out(const GlobalTensor<T>& dst, uint64_t dst_at, const LocalTensor<T>& src, uint64_t src_at, uint64_t bytes,
         const char* function, Where where) {
  auto* to = reinterpret_cast<uint8_t*>(dst.data()) + dst_at;
  const uint8_t* from = src.bytes_begin() + src_at;
  policy::Reads(PIPE_MTE3, from, bytes, function, where);
  TWIN_TELL(WriteGlobal(PIPE_MTE3, to, bytes, dst.from(), dst.to(), policy::At(function, where)));
  atomics::Store<T>(to, from, bytes);
}

// What surrounds a line: the padding if requested, otherwise the line's first element; what the documentation
// leaves open stays unspecified.
template <typename T>
void Pad(const LocalTensor<T>& dst, uint64_t at, uint64_t left, uint64_t used, uint64_t right, uint64_t line,
         const DataCopyPadExtParams<T>& pad, Where where) {
  uint8_t* begin = dst.bytes_begin() + at;
  policy::Writes(PIPE_MTE2, begin, left, "DataCopyPad", where);
  policy::Writes(PIPE_MTE2, begin + used, line - used, "DataCopyPad", where);
  const bool plain = left == 0 && right == 0;
  if (used % sizeof(T) == 0) {
    T* elements = reinterpret_cast<T*>(begin);
    const T value = plain ? elements[0] : pad.paddingValue;
    std::fill(elements, elements + left / sizeof(T), value);
    std::fill(elements + used / sizeof(T), elements + line / sizeof(T), value);
  }
  if (plain) return;
  if (!pad.isPad) policy::Forgets(begin, left);
  const uint64_t known = pad.isPad ? used + right : used;
  policy::Forgets(begin + known, line - known);
}

}  // namespace copy

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& params,
              Where where = Where::Here()) {
  policy::Aligned(dst.data(), 32, "DataCopy", where);
  policy::Aligned(src.data(), std::min<uint64_t>(sizeof(T), 8), "DataCopy", where);
  const uint64_t bytes = params.blockLen * 32u;
  for (uint64_t i = 0; i < params.blockCount; ++i) {
    copy::In(dst, i * (bytes + params.dstStride * 32u), src, i * (bytes + params.srcStride * 32u), bytes, "DataCopy",
             where);
  }
}
template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& params,
              Where where = Where::Here()) {
  policy::Aligned(src.data(), 32, "DataCopy", where);
  const uint64_t bytes = params.blockLen * 32u;
  for (uint64_t i = 0; i < params.blockCount; ++i) {
    copy::Out(dst, i * (bytes + params.dstStride * 32u), src, i * (bytes + params.srcStride * 32u), bytes, "DataCopy",
              where);
  }
}
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& params,
              Where where = Where::Here()) {
  policy::Aligned(dst.data(), 32, "DataCopy", where);
  policy::Aligned(src.data(), 32, "DataCopy", where);
  const uint64_t bytes = params.blockLen * 32u;
  for (uint64_t i = 0; i < params.blockCount; ++i) {
    uint8_t* to = dst.bytes_begin() + i * (bytes + params.dstStride * 32u);
    const uint8_t* from = src.bytes_begin() + i * (bytes + params.srcStride * 32u);
    policy::Reads(PIPE_V, from, bytes, "DataCopy", where);
    policy::Writes(PIPE_V, to, bytes, "DataCopy", where);
    std::memmove(to, from, bytes);
  }
}

// The size in bytes, count * sizeof(T), is rounded down to 32. An int4b_t counts as the whole byte that
// sizeof returns, as in the documented formula and in existing kernels: twice what it needs.
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const uint32_t count,
              Where where = Where::Here()) {
  policy::Aligned(dst.data(), 32, "DataCopy", where);
  copy::In(dst, 0, src, 0, uint64_t{count} * sizeof(T) / 32 * 32, "DataCopy", where);
}
template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count,
              Where where = Where::Here()) {
  policy::Aligned(src.data(), 32, "DataCopy", where);
  copy::Out(dst, 0, src, 0, uint64_t{count} * sizeof(T) / 32 * 32, "DataCopy", where);
}
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count, Where where = Where::Here()) {
  const uint64_t bytes = uint64_t{count} * sizeof(T) / 32 * 32;
  policy::Aligned(dst.data(), 32, "DataCopy", where);
  policy::Aligned(src.data(), 32, "DataCopy", where);
  policy::Reads(PIPE_V, src.data(), bytes, "DataCopy", where);
  policy::Writes(PIPE_V, dst.data(), bytes, "DataCopy", where);
  std::memmove(dst.data(), src.data(), bytes);
}

// Lines of any number of bytes. In the buffer each line starts at a multiple of 32 bytes and is padded to
// one.
template <typename T>
void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyExtParams& params,
                 const DataCopyPadExtParams<T>& pad, Where where = Where::Here()) {
  const char* const name = "DataCopyPad";
  policy::Aligned(dst.data(), 32, name, where);
  const uint64_t left = pad.leftPadding * sizeof(T), right = pad.rightPadding * sizeof(T);
  policy::Wants(left <= 32 && right <= 32, "each padding is at most 32 bytes", name, where);
  policy::Wants(sizeof(T) < 8 || pad.paddingValue == T{}, "64-bit types can only be padded with 0", name, where);
  if (params.blockLen == 0) return;
  const uint64_t line = (left + params.blockLen + right + 31) / 32 * 32;
  for (uint64_t i = 0; i < params.blockCount; ++i) {
    const uint64_t at = i * (line + params.dstStride * 32u);
    copy::In(dst, at + left, src, i * (uint64_t{params.blockLen} + params.srcStride), params.blockLen, name, where);
    copy::Pad(dst, at, left, left + params.blockLen, right, line, pad, where);
  }
}
template <typename T>
void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& params,
                 const DataCopyPadParams& pad, Where where = Where::Here()) {
  T value{};
  std::memcpy(&value, &pad.paddingValue, sizeof(T));
  DataCopyPad(dst, src, DataCopyExtParams{params.blockCount, params.blockLen, params.srcStride, params.dstStride, 0},
              DataCopyPadExtParams<T>{pad.isPad, pad.leftPadding, pad.rightPadding, value}, where);
}
template <typename T>
void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyExtParams& params,
                 Where where = Where::Here()) {
  policy::Aligned(src.data(), 32, "DataCopyPad", where);
  const uint64_t line = (uint64_t{params.blockLen} + 31) / 32 * 32;
  for (uint64_t i = 0; i < params.blockCount; ++i) {
    copy::Out(dst, i * (uint64_t{params.blockLen} + params.dstStride), src, i * (line + params.srcStride * 32u),
              params.blockLen, "DataCopyPad", where);
  }
}
template <typename T>
void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& params,
                 Where where = Where::Here()) {
  DataCopyPad(dst, src, DataCopyExtParams{params.blockCount, params.blockLen, params.srcStride, params.dstStride, 0},
              where);
}

// Lines of a matrix into the cube unit's layout of 32-byte columns.
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const Nd2NzParams& p,
              Where where = Where::Here()) {
  constexpr uint64_t kColumn = 32 / sizeof(T);
  policy::Aligned(dst.data(), 32, "DataCopy", where);
  for (uint64_t matrix = 0; matrix < p.ndNum; ++matrix) {
    for (uint64_t row = 0; row < p.nValue; ++row) {
      for (uint64_t first = 0; first < p.dValue; first += kColumn) {
        const uint64_t count = std::min(kColumn, p.dValue - first);
        const uint64_t to = matrix * p.dstNzMatrixStride * sizeof(T) + first / kColumn * p.dstNzC0Stride * 32 +
                            row * p.dstNzNStride * 32;
        copy::In(dst, to, src, (matrix * p.srcNdMatrixStride + row * p.srcDValue + first) * sizeof(T),
                 count * sizeof(T), "DataCopy", where);
        policy::Writes(PIPE_MTE2, dst.bytes_begin() + to + count * sizeof(T), 32 - count * sizeof(T), "DataCopy",
                       where);
        std::memset(dst.bytes_begin() + to + count * sizeof(T), 0, 32 - count * sizeof(T));
      }
    }
  }
}

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
