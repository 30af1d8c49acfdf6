// Copies between global memory and the core's buffer, and within the buffer. Global to local runs on
// PIPE_MTE2, local to global on PIPE_MTE3, within the unified buffer on PIPE_V, from there into L1 on PIPE_MTE3, from
// L1 into the bias table on PIPE_MTE1.
#pragma once

#include <algorithm>
#include <cstring>

#include "ascendc/atomic.h"
#include "ascendc/tensor.h"

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {
namespace copy {

template <typename T>
pipe_t PipeBetween(const LocalTensor<T>& dst, const LocalTensor<T>& src, Where where) {
  using enum twin::ascendc::Memory;
  const auto from = MemoryOf(static_cast<TPosition>(src.GetPosition())),
             to = MemoryOf(static_cast<TPosition>(dst.GetPosition()));
  if (from == kUb && to == kUb) return PIPE_V;
  if (from == kUb && to == kL1) return PIPE_MTE3;
  policy::Wants(from == kL1 && (to == kBiasTable || to == kFixpipe),
                "there is no such path: UB to UB or L1, L1 to the bias table or the fixpipe buffer", "DataCopy", where);
  if (to == kBiasTable) policy::Aligned(dst.data(), 64, "DataCopy", where);
  return to == kBiasTable ? PIPE_MTE1 : PIPE_FIX;
}

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
  const pipe_t pipe = copy::PipeBetween(dst, src, where);
  const uint64_t bytes = params.blockLen * 32u;
  for (uint64_t i = 0; i < params.blockCount; ++i) {
    uint8_t* to = dst.bytes_begin() + i * (bytes + params.dstStride * 32u);
    const uint8_t* from = src.bytes_begin() + i * (bytes + params.srcStride * 32u);
    policy::Reads(pipe, from, bytes, "DataCopy", where);
    policy::Writes(pipe, to, bytes, "DataCopy", where);
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
  const pipe_t pipe = copy::PipeBetween(dst, src, where);
  policy::Reads(pipe, src.data(), bytes, "DataCopy", where);
  policy::Writes(pipe, dst.data(), bytes, "DataCopy", where);
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

namespace copy {

inline void Nd2NzRanges(const Nd2NzParams& p, uint64_t column, Where where) {
  const char* name = "DataCopy";
  policy::Wants(p.ndNum <= 4095 && p.nValue <= 16384, "ndNum is at most 4095, nValue 16384", name, where);
  policy::Wants(p.srcDValue >= 1, "srcDValue, the elements of a row of the source, is at least 1", name, where);
  policy::Wants(p.dstNzC0Stride >= 1 && p.dstNzC0Stride <= 16384, "dstNzC0Stride is 1 to 16384", name, where);
  policy::Wants(p.dstNzNStride >= 1 && p.dstNzNStride <= 16384, "dstNzNStride is 1 to 16384", name, where);
  policy::Wants(p.nValue <= 1 || p.dValue <= p.srcDValue, "rows of dValue elements overlap at a pitch of srcDValue",
                name, where);
  policy::Wants(p.dstNzNStride > 1 || p.dValue <= column || p.dstNzC0Stride >= p.nValue,
                "columns of nValue rows overlap at a dstNzC0Stride that is smaller", name, where);
}

// A matrix of nValue rows: its pieces of 32 bytes, the last of a row filled up with zeros. A few rows at once, so that
// lines of the cache are read and written whole.
template <typename T>
void MatrixToNz(uint8_t* to, const uint8_t* from, const Nd2NzParams& p) {
  constexpr uint64_t kAtOnce = 8;
  const uint64_t row_bytes = p.dValue * sizeof(T), pitch = p.srcDValue * sizeof(T), whole = row_bytes / 32,
                 rest = row_bytes % 32, across = p.dstNzC0Stride * 32u, down = p.dstNzNStride * 32u;
  for (uint64_t first = 0; first < p.nValue; first += kAtOnce) {
    const uint64_t last = std::min<uint64_t>(first + kAtOnce, p.nValue);
    for (uint64_t piece = 0; piece < whole; ++piece) {
      for (uint64_t row = first; row < last; ++row)
        std::memcpy(to + piece * across + row * down, from + row * pitch + piece * 32, 32);
    }
    for (uint64_t row = first; rest != 0 && row < last; ++row) {
      std::memset(to + whole * across + row * down, 0, 32);
      std::memcpy(to + whole * across + row * down, from + row * pitch + whole * 32, rest);
    }
  }
}

// What the checked build notes of it: rows read, pieces written and where each came from.
template <typename T>
void NoteNz(const LocalTensor<T>& dst, uint64_t to, const GlobalTensor<T>& src, uint64_t from, const Nd2NzParams& p,
            Where where) {
  constexpr uint64_t kColumn = 32 / sizeof(T);
  auto* checker = twin::ascendc::ThisCore().checker;
  const uint32_t copied = checker->NewCopy();
  for (uint64_t row = 0; row < p.nValue; ++row) {
    checker->ReadGlobal(PIPE_MTE2, reinterpret_cast<const uint8_t*>(src.data()) + from + row * p.srcDValue * sizeof(T),
                        p.dValue * sizeof(T), src.from(), src.to(), policy::At("DataCopy", where));
  }
  for (uint64_t first = 0; first < p.dValue; first += kColumn) {
    uint8_t* column = dst.bytes_begin() + to + first / kColumn * p.dstNzC0Stride * 32;
    const uint64_t at_once = p.dstNzNStride == 1 ? p.nValue : 1;  // pieces
    for (uint64_t row = 0; row < p.nValue; row += at_once)
      policy::Writes(PIPE_MTE2, column + row * p.dstNzNStride * 32, at_once * 32, "DataCopy", where);
    for (uint64_t row = 0; row < p.nValue; ++row)
      checker->SetOrigin(column + row * p.dstNzNStride * 32,
                         {copied, static_cast<uint32_t>(row), static_cast<uint32_t>(first)});
  }
}

}  // namespace copy

// Matrices into the cube core's layout NZ: columns of 32 bytes. Rows after the last are not written.
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const Nd2NzParams& p,
              Where where = Where::Here()) {
  policy::Aligned(dst.data(), 32, "DataCopy", where);
  if (p.ndNum == 0 || p.nValue == 0 || p.dValue == 0) return;
  copy::Nd2NzRanges(p, 32 / sizeof(T), where);
  twin::ascendc::CubeWork& work = twin::ascendc::ThisCore().work;
  ++work.mte2_calls, work.mte2_bytes += uint64_t{p.ndNum} * p.nValue * p.dValue * sizeof(T);
  for (uint64_t matrix = 0; matrix < p.ndNum; ++matrix) {
    const uint64_t to = matrix * p.dstNzMatrixStride * sizeof(T), from = matrix * p.srcNdMatrixStride * sizeof(T);
    if constexpr (policy::kChecked) copy::NoteNz(dst, to, src, from, p, where);
    copy::MatrixToNz<T>(dst.bytes_begin() + to, reinterpret_cast<const uint8_t*>(src.data()) + from, p);
  }
}

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
