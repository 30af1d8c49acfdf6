// Out of the cube core (PIPE_FIX): from L0C into global memory or L1, rounded, scaled, cut at 0, in rows or in NZ.
#pragma once

#include <bit>
#include <cmath>

#include "ascendc/atomic.h"
#include "ascendc/cube_load.h"

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {
namespace fixpipe {

template <typename T, typename C>
constexpr bool Fits(QuantMode_t mode) {
  if (std::is_same_v<C, float>) {
    if (std::is_same_v<T, float>) return mode == NoQuant;
    if (std::is_same_v<T, half>) return mode == F322F16;
    if (std::is_same_v<T, bfloat16_t>) return mode == F322BF16;
    return sizeof(T) == 1 && mode == QF322B8_PRE;
  }
  if (std::is_same_v<T, int32_t>) return mode == NoQuant;
  if (std::is_same_v<T, half>) return mode == DEQF16;
  return sizeof(T) == 1 && mode == REQ8;
}

// How many columns are together in NZ.
template <typename T>
constexpr uint32_t ColumnsOfNz(const FixpipeParamsV220& p) {
  if (p.isChannelSplit) return 8;
  return sizeof(T) == 1 ? 32 : 16;
}

// Integers round to nearest, ties to even, and saturate.
template <typename T, typename C>
T Converted(C value, float scale, bool relu) {
  if constexpr (std::is_same_v<C, float> || !std::is_same_v<T, int32_t>) {
    float x = static_cast<float>(value) * scale;
    if (relu && x < 0) x = 0;
    if constexpr (sizeof(T) == 1) {
      const float low = std::is_signed_v<T> ? -128.0f : 0.0f;
      return static_cast<T>(static_cast<int>(std::fmin(std::fmax(std::nearbyint(x), low), low + 255.0f)));
    } else {
      return static_cast<T>(x);
    }
  } else {
    return relu && value < 0 ? 0 : value;
  }
}

// deqScalar holds an fp32 in its lower half.
inline float ScaleOf(const FixpipeParamsV220& p) {
  const bool scales = p.quantPre == DEQF16 || p.quantPre == QF322B8_PRE || p.quantPre == REQ8;
  return scales ? std::bit_cast<float>(static_cast<uint32_t>(p.deqScalar)) : 1.0f;
}

template <typename T, typename C, CO2Layout layout>
void WantsFixpipe(const LocalTensor<C>& src, const FixpipeParamsV220& p, Where where) {
  const char* name = "Fixpipe";
  static_assert(layout != CO2Layout::COLUMN_MAJOR, "Fixpipe writes columns on later chips only");
  policy::Wants(cube::IsIn(src, cube::Memory::kL0c), "the source is in CO1", name, where);
  policy::Aligned(src.data(), 64, name, where);
  if (!Fits<T, C>(p.quantPre))
    policy::Fail(name, "quantPre does not convert between these types, or is a vector", where);
  policy::Wants(p.nSize <= 4095, "nSize is at most 4095", name, where);
  policy::Wants(layout == CO2Layout::NZ || p.mSize <= 8192, "mSize is at most 8192", name, where);
  policy::Wants(p.srcStride % 16 == 0 && p.srcStride >= p.mSize, "srcStride is the padded m, a multiple of 16", name,
                where);
  policy::Wants(p.dstStride >= 1, "dstStride is at least 1", name, where);
  policy::Wants(layout == CO2Layout::ROW_MAJOR || p.ndNum <= 1, "several matrices need CFG_ROW_MAJOR", name, where);
  policy::Wants(p.ndNum <= 1 || (p.srcNdStride >= 1 && p.srcNdStride <= 512 && p.dstNdStride >= 1),
                "srcNdStride is 1 to 512, dstNdStride at least 1", name, where);
  policy::Wants(!p.isChannelSplit || (layout == CO2Layout::NZ && std::is_same_v<T, float>),
                "isChannelSplit is for float in CFG_NZ", name, where);
}

// Matrix by matrix, row by row (NZ: 16 columns of a row; split, 8): store(matrix, row, first column, elements, count).
template <typename T, typename C, CO2Layout layout, typename Store>
void Rows(const LocalTensor<C>& src, const FixpipeParamsV220& p, Store store) {
  constexpr uint32_t kMostColumns = 4096;
  const uint32_t at_once = layout == CO2Layout::ROW_MAJOR ? p.nSize : ColumnsOfNz<T>(p);
  const float scale = ScaleOf(p);
  // Rounded a whole row at once.
  constexpr bool kPlain = std::is_same_v<C, float> && sizeof(T) != 1;
  T line[kMostColumns];
  [[maybe_unused]] C wide[kPlain ? kMostColumns : 1];
  for (uint32_t matrix = 0; matrix < std::max<uint32_t>(p.ndNum, 1); ++matrix) {
    const C* from = src.data() + uint64_t{matrix} * p.srcNdStride * 256;
    for (uint32_t first = 0; first < p.nSize; first += at_once) {
      const uint32_t count = std::min<uint32_t>(at_once, p.nSize - first);
      for (uint32_t row = 0; row < p.mSize; ++row) {
        for (uint32_t block = 0; block < count; block += 16) {
          const uint32_t column = first + block, width = std::min(16u, count - block);
          const C* piece = from + column / 16 * uint64_t{p.srcStride} * 16 + row * 16 + column % 16;
          if constexpr (kPlain) {
            std::memcpy(wide + block, piece, width * sizeof(C));
          } else {
            for (uint32_t i = 0; i < width; ++i) line[block + i] = Converted<T, C>(piece[i], scale, p.reluEn);
          }
        }
        if constexpr (kPlain) {
          for (uint32_t i = 0; p.reluEn && i < count; ++i) wide[i] = wide[i] < 0 ? 0 : wide[i];
          twin::ascendc::loops::RoundRow(line, wide, count);
        }
        store(matrix, row, first, line, count);
      }
    }
  }
}

template <typename T, typename C, CO2Layout layout, typename To>
void WriteOut(const LocalTensor<C>& src, const FixpipeParamsV220& p, To to, Where where) {
  WantsFixpipe<T, C, layout>(src, p, where);
  if (p.nSize == 0 || p.mSize == 0) return;
  const uint64_t last = uint64_t{std::max<uint32_t>(p.ndNum, 1) - 1} * p.srcNdStride * 256;
  if constexpr (policy::kChecked) {
    const uint64_t bytes = (last + (p.nSize + 15u) / 16 * uint64_t{p.srcStride} * 16) * sizeof(C);
    twin::ascendc::ThisCore().checker->UnitFlagOfFixpipe(src.data(), bytes, p.unitFlag, policy::At("Fixpipe", where));
    for (uint32_t matrix = 0; matrix < std::max<uint32_t>(p.ndNum, 1); ++matrix) {
      for (uint32_t column = 0; column < (p.nSize + 15u) / 16; ++column)
        policy::Reads(PIPE_FIX,
                      src.data() + uint64_t{matrix} * p.srcNdStride * 256 + column * uint64_t{p.srcStride} * 16,
                      uint64_t{p.mSize} * 16 * sizeof(C), "Fixpipe", where);
    }
  }
  twin::ascendc::CubeWork& work = twin::ascendc::ThisCore().work;
  ++work.fixpipe_calls;
  work.fixpipe_bytes += uint64_t{std::max<uint32_t>(p.ndNum, 1)} * p.mSize * p.nSize * sizeof(T);
  Rows<T, C, layout>(src, p, [&](uint32_t matrix, uint32_t row, uint32_t first, const T* line, uint32_t count) {
    const uint64_t piece = ColumnsOfNz<T>(p);
    const uint64_t at = layout == CO2Layout::ROW_MAJOR
                            ? (uint64_t{matrix} * p.dstNdStride + uint64_t{row} * p.dstStride + first) * sizeof(T)
                            : first / piece * uint64_t{p.dstStride} * 32 + row * piece * sizeof(T);
    to(at, line, count * sizeof(T));
  });
}

}  // namespace fixpipe

template <typename T, typename C, const FixpipeConfig& config = CFG_ROW_MAJOR>
void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<C>& src, const FixpipeParamsV220& params,
             Where where = Where::Here()) {
  fixpipe::WriteOut<T, C, config.format>(
      src, params,
      [&](uint64_t at, const T* line, uint64_t bytes) {
        auto* to = reinterpret_cast<uint8_t*>(dst.data()) + at;
        TWIN_TELL(WriteGlobal(PIPE_FIX, to, bytes, dst.from(), dst.to(), policy::At("Fixpipe", where)));
        atomics::Store<T>(to, reinterpret_cast<const uint8_t*>(line), bytes);
      },
      where);
}

// Into L1, as the operand of another product.
template <typename T, typename C, const FixpipeConfig& config = CFG_NZ>
void Fixpipe(const LocalTensor<T>& dst, const LocalTensor<C>& src, const FixpipeParamsV220& params,
             Where where = Where::Here()) {
  policy::Wants(cube::IsIn(dst, cube::Memory::kL1), "the destination is in A1 or B1: L0C has no path to another memory",
                "Fixpipe", where);
  policy::Aligned(dst.data(), 32, "Fixpipe", where);
  fixpipe::WriteOut<T, C, config.format>(
      src, params,
      [&](uint64_t at, const T* line, uint64_t bytes) {
        policy::Writes(PIPE_FIX, dst.bytes_begin() + at, bytes, "Fixpipe", where);
        std::memcpy(dst.bytes_begin() + at, line, bytes);
      },
      where);
}

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
