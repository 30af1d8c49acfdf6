// Elements from positions: Gather by byte offsets, GatherMask by a pattern or by bits, Transpose.
#pragma once

#include "ascendc/lanes.h"

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {

template <typename T>
void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
            const uint32_t srcBaseAddr, const uint32_t count, Where where = Where::Here()) {
  policy::VectorIn(srcOffset, count, "Gather", where);
  policy::VectorOut(dst, count, "Gather", where);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t byte = srcBaseAddr + srcOffset.data()[i];
    policy::Wants(byte % sizeof(T) == 0, "an offset is not a multiple of the element size", "Gather", where);
    policy::Reads(PIPE_V, src.bytes_begin() + byte, sizeof(T), "Gather", where);
    std::memcpy(dst.data() + i, src.bytes_begin() + byte, sizeof(T));
  }
}

// By repeats of destination and offsets, eight blocks each.
template <typename T>
void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
            const uint32_t srcBaseAddr, lanes::GivenMask mask, const uint8_t repeatTimes, const uint16_t dstRepStride,
            Where where = Where::Here()) {
  constexpr uint32_t kWidth = 256 / sizeof(T);
  const lanes::Operand<T> to{dst, 1, dstRepStride};
  policy::Aligned(dst.data(), 32, "Gather", where);
  for (uint32_t repeat = 0; repeat < lanes::Repeats(lanes::Given<true>(mask), repeatTimes, kWidth); ++repeat) {
    lanes::Mask active{};
    const uint32_t count = lanes::ActiveLanes(lanes::Given<true>(mask), repeat, kWidth, &active);
    for (uint32_t lane = 0; lane < count; ++lane) {
      if (!active.Has(lane)) continue;
      const uint32_t* offset = srcOffset.data() + repeat * kWidth + lane;
      policy::Reads(PIPE_V, offset, sizeof *offset, "Gather", where);
      const uint8_t* from = src.bytes_begin() + srcBaseAddr + *offset;
      policy::Reads(PIPE_V, from, sizeof(T), "Gather", where);
      policy::Writes(PIPE_V, to.Address(repeat, lane), sizeof(T), "Gather", where);
      std::memcpy(to.Address(repeat, lane), from, sizeof(T));
    }
  }
}

// Whole blocks of 32 bytes from byte offsets, eight per repeat.
template <typename T>
void Gatherb(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<uint32_t>& offset,
             const uint8_t repeatTimes, const GatherRepeatParams& p, Where where = Where::Here()) {
  policy::VectorIn(offset, repeatTimes * 8u, "Gatherb", where);
  policy::Aligned(dst.data(), 32, "Gatherb", where);
  for (uint32_t i = 0; i < repeatTimes * 8u; ++i) {
    const uint8_t* from = src0.bytes_begin() + offset.data()[i];
    uint8_t* to = dst.bytes_begin() + (i / 8 * p.dstRepStride + i % 8 * p.dstBlkStride) * 32;
    policy::Aligned(from, 32, "Gatherb", where);
    policy::Reads(PIPE_V, from, 32, "Gatherb", where);
    policy::Writes(PIPE_V, to, 32, "Gatherb", where);
    std::memmove(to, from, 32);
  }
}

namespace gathering {

// The built-in patterns: even, odd, one in four, all.
inline bool InPattern(uint8_t pattern, uint64_t lane) {
  switch (pattern) {
    case 1:
      return lane % 2 == 0;
    case 2:
      return lane % 2 == 1;
    case 3:
    case 4:
    case 5:
    case 6:
      return lane % 4 == pattern - 3u;
    default:
      return true;
  }
}

// Compacts the elements that `wanted(repeat, lane)` selects; returns how many.
template <typename T, typename Wanted>
uint64_t Compact(const LocalTensor<T>& dst, const LocalTensor<T>& src, bool counted, uint32_t mask,
                 const GatherMaskParams& p, Where where, Wanted wanted) {
  policy::Aligned(dst.data(), 32, "GatherMask", where);
  const uint32_t width = counted ? mask : 256 / sizeof(T);
  const lanes::Operand<T> operand{src, p.src0BlockStride, p.src0RepeatStride};
  uint64_t taken = 0;
  for (uint32_t repeat = 0; repeat < p.repeatTimes; ++repeat) {
    for (uint32_t lane = 0; lane < width; ++lane) {
      if (!wanted(repeat, lane)) continue;
      const T* from = operand.Address(repeat, lane);
      policy::Reads(PIPE_V, from, sizeof(T), "GatherMask", where);
      const T value = *from;
      policy::Writes(PIPE_V, dst.data() + taken, sizeof(T), "GatherMask", where);
      dst.data()[taken++] = value;
    }
  }
  return taken;
}

}  // namespace gathering

template <typename T>
void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const uint8_t src1Pattern, const bool reduceMode,
                const uint32_t mask, const GatherMaskParams& params, uint64_t& rsvdCnt, Where where = Where::Here()) {
  policy::Wants(src1Pattern >= 1 && src1Pattern <= 7, "patterns are 1 to 7", "GatherMask", where);
  rsvdCnt = gathering::Compact(dst, src0, reduceMode, mask, params, where,
                               [&](uint32_t, uint32_t lane) { return gathering::InPattern(src1Pattern, lane); });
}
template <typename T, typename U>
void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<U>& src1Pattern,
                const bool reduceMode, const uint32_t mask, const GatherMaskParams& params, uint64_t& rsvdCnt,
                Where where = Where::Here()) {
  static_assert(sizeof(U) == sizeof(T), "the bits must be in an unsigned type of the elements' width");
  rsvdCnt = gathering::Compact(dst, src0, reduceMode, mask, params, where, [&](uint32_t repeat, uint32_t lane) {
    const uint8_t* byte = src1Pattern.bytes_begin() + repeat * params.src1RepeatStride * 32u + lane / 8;
    policy::Reads(PIPE_V, byte, 1, "GatherMask", where);
    return (*byte >> (lane % 8) & 1) != 0;
  });
}

// 16 × 16 elements of 2 bytes.
template <typename T>
void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src, Where where = Where::Here()) {
  static_assert(sizeof(T) == 2, "Transpose supports elements of 2 bytes");
  policy::VectorIn(src, 256, "Transpose", where);
  policy::VectorOut(dst, 256, "Transpose", where);
  T all[256];
  std::copy(src.data(), src.data() + 256, all);
  for (int i = 0; i < 256; ++i) dst.data()[i % 16 * 16 + i / 16] = all[i];
}

// Images of c channels of h × w, channels last or first.
template <typename T>
void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,
               const TransposeParamsExt& p, Where where = Where::Here()) {
  if (p.transposeType == TransposeType::TRANSPOSE_ND2ND_B16) return Transpose(dst, src, where);
  const bool last = p.transposeType == TransposeType::TRANSPOSE_NCHW2NHWC;
  policy::Wants(last || p.transposeType == TransposeType::TRANSPOSE_NHWC2NCHW,
                "the host supports only ND2ND_B16, NCHW2NHWC and NHWC2NCHW", "Transpose", where);
  const uint64_t rows = last ? p.cSize : uint64_t{p.hSize} * p.wSize,
                 columns = last ? uint64_t{p.hSize} * p.wSize : p.cSize, image = rows * columns;
  policy::VectorIn(src, p.nSize * image, "Transpose", where);
  policy::VectorOut(dst, p.nSize * image, "Transpose", where);
  for (uint64_t i = 0; i < p.nSize * image; ++i) {
    const uint64_t at = i % image;
    dst.data()[i - at + at % columns * rows + at / columns] = src.data()[i];
  }
}

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
