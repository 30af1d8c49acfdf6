// Into the cube core: constants into L1 and L0 (MTE2, MTE1), fractals from L1 into L0A and L0B, transposed or not
// (MTE1). DataCopy from ND to NZ is in copy.h.
#pragma once

#include <cstring>

#include "ascendc/copy.h"
#include "ascendc/cube_loops.h"
#include "ascendc/cube_params.h"
#include "ascendc/tensor.h"

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {
namespace cube {

using twin::ascendc::kBlockBytes;
using twin::ascendc::kFractalBytes;
using twin::ascendc::Memory;

template <typename T>
bool IsIn(const LocalTensor<T>& tensor, Memory memory) {
  return MemoryOf(static_cast<TPosition>(tensor.GetPosition())) == memory;
}
template <typename T>
bool IsInL0(const LocalTensor<T>& tensor) {
  return IsIn(tensor, Memory::kL0a) || IsIn(tensor, Memory::kL0b);
}

inline void MovesOrigin(const uint8_t* from, const uint8_t* to) {
  if constexpr (policy::kChecked) {
    auto* checker = twin::ascendc::ThisCore().checker;
    checker->SetOrigin(to, checker->OriginOf(from));
  }
}
// Lane i of the fractal at `to` is column i of the lanes that begin at `from`.
inline void TransposesOrigin(const uint8_t* from, const uint8_t* to, uint32_t lane) {
  if constexpr (policy::kChecked) {
    auto* checker = twin::ascendc::ThisCore().checker;
    twin::ascendc::Origin origin = checker->OriginOf(from);
    origin.column += origin.transposed ? 0 : lane, origin.row += origin.transposed ? lane : 0;
    origin.transposed = !origin.transposed;
    checker->SetOrigin(to + lane * kBlockBytes, origin);
  }
}

template <typename T>
void WantsL1ToL0(const LocalTensor<T>& dst, const LocalTensor<T>& src, const char* function, Where where) {
  const auto from = static_cast<TPosition>(src.GetPosition());
  policy::Wants(IsInL0(dst), "the destination is in A2 or B2", function, where);
  policy::Wants(IsIn(src, Memory::kL1), "the source is in A1 or B1", function, where);
  policy::Wants(from == TPosition::TSCM || (from == TPosition::A1) == IsIn(dst, Memory::kL0a),
                "A1 is loaded into A2, B1 into B2", function, where);
  policy::Aligned(dst.data(), kFractalBytes, function, where);
  policy::Aligned(src.data(), kBlockBytes, function, where);
}

// The next buffer may well hold data, but of another tensor.
template <typename T>
void WantsWithin(const LocalTensor<T>& src, int64_t index, uint64_t bytes, const char* function, Where where) {
  policy::Wants(index >= 0 && (static_cast<uint64_t>(index) + 1) * bytes <= src.GetLength(),
                "a fractal is beyond the source's tensor", function, where);
}

}  // namespace cube

template <typename T, typename U>
void InitConstValue(const LocalTensor<T>& dst, const InitConstValueParams<U>& params, Where where = Where::Here()) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "InitConstValue fills with 16- or 32-bit values");
  const bool in_l1 = cube::IsIn(dst, cube::Memory::kL1);
  policy::Wants(in_l1 || cube::IsInL0(dst), "the destination is in A1, B1, A2 or B2", "InitConstValue", where);
  const uint64_t unit = in_l1 ? cube::kBlockBytes : cube::kFractalBytes;
  policy::Aligned(dst.data(), unit, "InitConstValue", where);
  const uint64_t bytes = params.blockNum * unit;
  for (uint64_t i = 0; i < params.repeatTimes; ++i) {
    uint8_t* begin = dst.bytes_begin() + i * (bytes + params.dstGap * unit);
    policy::Writes(in_l1 ? PIPE_MTE2 : PIPE_MTE1, begin, bytes, "InitConstValue", where);
    std::fill_n(reinterpret_cast<T*>(begin), bytes / sizeof(T), static_cast<T>(params.initValue));
  }
}

// Fractals as they are, or each transposed. The order of fractals follows from the strides.
template <typename T>
void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData2DParams& p,
              Where where = Where::Here()) {
  cube::WantsL1ToL0(dst, src, "LoadData", where);
  policy::Wants(!p.ifTranspose || sizeof(T) == 2, "ifTranspose needs a 16-bit type; use LoadDataWithTranspose",
                "LoadData", where);
  twin::ascendc::CubeWork& work = twin::ascendc::ThisCore().work;
  ++work.mte1_calls, work.mte1_bytes += uint64_t{p.repeatTimes} * cube::kFractalBytes;
  for (int64_t i = 0; i < p.repeatTimes; ++i) {
    const int64_t index = p.startIndex + (p.addrMode == 0 ? i : -i) * p.srcStride;
    const uint8_t* from = src.bytes_begin() + index * cube::kFractalBytes;
    uint8_t* to = dst.bytes_begin() + i * (p.dstGap + 1) * cube::kFractalBytes;
    cube::WantsWithin(src, index, cube::kFractalBytes, "LoadData", where);
    policy::Reads(PIPE_MTE1, from, cube::kFractalBytes, "LoadData", where);
    policy::Writes(PIPE_MTE1, to, cube::kFractalBytes, "LoadData", where);
    if (!p.ifTranspose) {
      std::memcpy(to, from, cube::kFractalBytes);
      for (uint32_t lane = 0; lane < 16; ++lane) cube::MovesOrigin(from + lane * 32, to + lane * 32);
      continue;
    }
    twin::ascendc::loops::TransposeFractal(reinterpret_cast<uint16_t*>(to), reinterpret_cast<const uint16_t*>(from));
    for (uint32_t lane = 0; lane < 16; ++lane) cube::TransposesOrigin(from, to, lane);
  }
}

// Fractals that are in global memory one after another, as a matrix in NZ is.
template <typename T>
void LoadData(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const LoadData2DParams& p,
              Where where = Where::Here()) {
  policy::Wants(cube::IsIn(dst, cube::Memory::kL1) || cube::IsInL0(dst), "the destination is in A1, B1, A2 or B2",
                "LoadData", where);
  policy::Wants(!p.ifTranspose, "ifTranspose needs a source in A1 or B1", "LoadData", where);
  policy::Aligned(dst.data(), cube::IsInL0(dst) ? cube::kFractalBytes : cube::kBlockBytes, "LoadData", where);
  for (int64_t i = 0; i < p.repeatTimes; ++i) {
    const int64_t index = p.startIndex + (p.addrMode == 0 ? i : -i) * p.srcStride;
    copy::In(dst, static_cast<uint64_t>(i * (p.dstGap + 1) * cube::kFractalBytes), src,
             static_cast<uint64_t>(index * cube::kFractalBytes), cube::kFractalBytes, "LoadData", where);
  }
}

// Squares, transposed: of 16-bit types a fractal; of 8-bit types 32 x 32, two fractals below each other; of 32-bit
// types 16 x 16, two fractals side by side. Both are adjacent in L1.
template <typename T>
void LoadDataWithTranspose(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData2dTransposeParams& p,
                           Where where = Where::Here()) {
  cube::WantsL1ToL0(dst, src, "LoadDataWithTranspose", where);
  constexpr uint32_t kC0 = 32 / sizeof(T), kFractals = sizeof(T) == 2 ? 1 : 2, kSize = sizeof(T) == 1 ? 32 : 16;
  constexpr uint64_t kSquare = kFractals * cube::kFractalBytes;
  twin::ascendc::CubeWork& work = twin::ascendc::ThisCore().work;
  ++work.mte1_calls, work.mte1_bytes += p.repeatTimes * kSquare;
  for (int64_t i = 0; i < p.repeatTimes; ++i) {
    const int64_t index = p.startIndex + (p.addrMode == 0 ? i : -i) * p.srcStride;
    const uint8_t* from = src.bytes_begin() + index * static_cast<int64_t>(kSquare);
    uint8_t* to = dst.bytes_begin() + i * (p.dstGap + 1) * cube::kFractalBytes;
    cube::WantsWithin(src, index, kSquare, "LoadDataWithTranspose", where);
    policy::Reads(PIPE_MTE1, from, kSquare, "LoadDataWithTranspose", where);
    for (uint32_t f = 0; f < kFractals; ++f)
      policy::Writes(PIPE_MTE1, to + f * (p.dstFracGap + 1u) * cube::kFractalBytes, cube::kFractalBytes,
                     "LoadDataWithTranspose", where);
    const auto at = [&](uint32_t lane, uint32_t element, uint64_t second) {  // two fractals: along either
      const uint32_t below = lane / 16, beside = element / kC0;
      return (below + beside) * second + (lane % 16 * kC0 + element % kC0) * sizeof(T);
    };
    const uint64_t gap = (p.dstFracGap + 1u) * cube::kFractalBytes;
    for (uint32_t row = 0; row < kSize; ++row) {
      for (uint32_t column = 0; column < kSize; ++column)
        std::memcpy(to + at(column, row, gap), from + at(row, column, cube::kFractalBytes), sizeof(T));
    }
    for (uint32_t lane = 0; lane < kSize; ++lane) {  // each piece of a lane begins in the row of its first element
      for (uint32_t element = 0; element < kSize; element += kC0) {
        const uint8_t* first = from + at(element, lane / kC0 * kC0, cube::kFractalBytes);
        const uint64_t piece = at(lane, element, gap);
        cube::TransposesOrigin(first, to + piece - lane % kC0 * 32, lane % kC0);
      }
    }
  }
}

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
