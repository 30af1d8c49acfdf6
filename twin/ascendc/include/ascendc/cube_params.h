// Parameters of the cube core's functions: names, order and defaults as documented for Atlas A2.
#pragma once

#include <cstdint>

#include "ascendc/types.h"

namespace AscendC {

// Blocks of `blockNum` units, dstGap apart: 32 bytes in L1, 512 in L0A and L0B.
template <typename T>
struct InitConstValueParams {
  uint16_t repeatTimes = 0, blockNum = 0, dstGap = 0;
  T initValue{};
  InitConstValueParams() = default;
  InitConstValueParams(uint16_t repeats, uint16_t blocks, uint16_t gap, T value)
      : repeatTimes(repeats), blockNum(blocks), dstGap(gap), initValue(value) {}
};

// Fractals of 512 bytes; srcStride from head to head, dstGap from tail to head.
struct LoadData2DParams {
  uint16_t startIndex = 0;
  uint8_t repeatTimes = 0;
  uint16_t srcStride = 0;
  uint8_t sid = 0;
  uint16_t dstGap = 0;
  bool ifTranspose = false;
  uint8_t addrMode = 0;
  LoadData2DParams() = default;
  LoadData2DParams(uint16_t start, uint8_t repeats, uint16_t stride, uint8_t stream, uint16_t gap, bool transpose,
                   uint8_t mode)
      : startIndex(start),
        repeatTimes(repeats),
        srcStride(stride),
        sid(stream),
        dstGap(gap),
        ifTranspose(transpose),
        addrMode(mode) {}
};

// Squares of one fractal (16-bit types) or two; dstGap and dstFracGap in fractals, both after a square's first.
struct LoadData2dTransposeParams {
  uint16_t startIndex = 0;
  uint8_t repeatTimes = 0;
  uint16_t srcStride = 0, dstGap = 0, dstFracGap = 0;
  uint8_t addrMode = 0;
  LoadData2dTransposeParams() = default;
  LoadData2dTransposeParams(uint16_t start, uint8_t repeats, uint16_t stride, uint16_t gap, uint16_t fractal_gap,
                            uint8_t mode = 0)
      : startIndex(start),
        repeatTimes(repeats),
        srcStride(stride),
        dstGap(gap),
        dstFracGap(fractal_gap),
        addrMode(mode) {}
};

struct MmadParams {
  uint16_t m = 0, n = 0, k = 0;
  bool isBias = false;  // deprecated: adds to what is in L0C
  int32_t fmOffset = 0;
  bool enSsparse = false, enWinogradA = false, enWinogradB = false;
  int8_t unitFlag = 0;
  bool kDirectionAlign = false;
  bool cmatrixSource = false;  // the initial value is in the bias table instead of L0C
  bool cmatrixInitVal = true;  // the initial value is 0
  MmadParams() = default;
  MmadParams(uint16_t rows, uint16_t columns, uint16_t depth, bool bias, int32_t offset, bool sparse, bool winograd_a,
             bool winograd_b)
      : m(rows),
        n(columns),
        k(depth),
        isBias(bias),
        fmOffset(offset),
        enSsparse(sparse),
        enWinogradA(winograd_a),
        enWinogradB(winograd_b) {}
  MmadParams(uint16_t rows, uint16_t columns, uint16_t depth, uint8_t unit_flag, bool source, bool init)
      : m(rows),
        n(columns),
        k(depth),
        unitFlag(static_cast<int8_t>(unit_flag)),
        cmatrixSource(source),
        cmatrixInitVal(init) {}
};

enum QuantMode_t {
  NoQuant,
  F322F16,
  F322BF16,
  DEQF16,
  VDEQF16,
  QF322B8_PRE,
  VQF322B8_PRE,
  REQ8,
  VREQ8,
};
enum class CO2Layout : uint8_t { NZ, ROW_MAJOR, COLUMN_MAJOR };
struct FixpipeConfig {
  CO2Layout format;
};
constexpr FixpipeConfig CFG_NZ{CO2Layout::NZ};
constexpr FixpipeConfig CFG_ROW_MAJOR{CO2Layout::ROW_MAJOR};

struct FixpipeParamsV220 {
  uint16_t nSize = 0, mSize = 0, srcStride = 0;
  uint32_t dstStride = 0;
  QuantMode_t quantPre = QuantMode_t::NoQuant;
  uint64_t deqScalar = 0;
  uint16_t ndNum = 1, srcNdStride = 0, dstNdStride = 0;
  bool reluEn = false;
  uint8_t unitFlag = 0;
  bool isChannelSplit = false;
  FixpipeParamsV220() = default;
  FixpipeParamsV220(uint16_t columns, uint16_t rows, uint16_t src_stride, uint32_t dst_stride, bool relu)
      : nSize(columns), mSize(rows), srcStride(src_stride), dstStride(dst_stride), reluEn(relu) {}
  FixpipeParamsV220(uint16_t columns, uint16_t rows, uint16_t src_stride, uint32_t dst_stride, bool relu,
                    QuantMode_t quant, int64_t scale, uint16_t matrices, uint16_t src_matrix, uint16_t dst_matrix)
      : nSize(columns),
        mSize(rows),
        srcStride(src_stride),
        dstStride(dst_stride),
        quantPre(quant),
        deqScalar(static_cast<uint64_t>(scale)),
        ndNum(matrices),
        srcNdStride(src_matrix),
        dstNdStride(dst_matrix),
        reluEn(relu) {}
};

}  // namespace AscendC

using AscendC::QuantMode_t;
using enum AscendC::QuantMode_t;
