// The product of fractals (PIPE_M): C in L0C = [C, 0 or a row of the bias table] + A in L0A times B in L0B.
#pragma once

#include <algorithm>

#include "ascendc/cube_load.h"

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {
namespace cube {

template <typename C, typename A, typename B>
constexpr bool CanMultiply() {
  if constexpr (std::is_same_v<A, int8_t>) return std::is_same_v<B, int8_t> && std::is_same_v<C, int32_t>;
  constexpr bool kFloating = std::is_same_v<A, half> || std::is_same_v<A, bfloat16_t> || std::is_same_v<A, float>;
  return kFloating && std::is_same_v<A, B> && std::is_same_v<C, float>;
}

template <typename A>
twin::ascendc::loops::ProductShape ShapeOf(const MmadParams& p) {
  constexpr uint32_t kC0 = 32 / sizeof(A);
  const uint32_t along_k = p.kDirectionAlign && sizeof(A) == 4 ? (p.k + 15u) / 16 * 2 : (p.k + kC0 - 1) / kC0;
  return {p.m, p.n, p.k, (p.m + 15u) / 16, (p.n + 15u) / 16, along_k};
}

template <typename C, typename A, typename B>
void WantsProduct(const LocalTensor<C>& c, const LocalTensor<A>& a, const LocalTensor<B>& b, const MmadParams& p,
                  Where where) {
  policy::Wants(IsIn(c, Memory::kL0c), "the result is in CO1", "Mmad", where);
  policy::Wants(IsIn(a, Memory::kL0a), "the left matrix is in A2", "Mmad", where);
  policy::Wants(IsIn(b, Memory::kL0b), "the right matrix is in B2", "Mmad", where);
  policy::Wants(p.m <= 4095 && p.n <= 4095 && p.k <= 4095, "m, n and k are at most 4095", "Mmad", where);
  policy::Wants(p.m != 1, "m = 1 is a matrix-vector product that reads A in another order; pad it to 2 rows", "Mmad",
                where);
  policy::Wants(!p.enSsparse && !p.enWinogradA && !p.enWinogradB && p.fmOffset == 0,
                "fmOffset, enSsparse and enWinograd are reserved", "Mmad", where);
  const auto s = ShapeOf<A>(p);
  policy::Wants(uint64_t{s.fractals_m} * s.fractals_k * kFractalBytes <= a.GetLength(), "A is larger than its tensor",
                "Mmad", where);
  policy::Wants(uint64_t{s.fractals_n} * s.fractals_k * kFractalBytes <= b.GetLength(), "B is larger than its tensor",
                "Mmad", where);
  for (const void* address :
       {static_cast<const void*>(c.data()), static_cast<const void*>(a.data()), static_cast<const void*>(b.data())})
    policy::Aligned(address, kFractalBytes, "Mmad", where);
}

// Lanes of an operand that count, in whole fractals along k: a device may read all of it.
template <typename T>
void ReadsLanes(const LocalTensor<T>& tensor, const twin::ascendc::FractalMatrix& matrix, Where where) {
  for (uint32_t lane = 0; lane < matrix.along_lanes; ++lane) {
    const uint64_t lanes = std::min(16u, matrix.lanes - lane * 16);
    for (uint32_t k = 0; k < matrix.along_k; ++k) {
      const uint64_t at = uint64_t{lane} * matrix.lane_stride + uint64_t{k} * matrix.k_stride;
      policy::Reads(PIPE_M, tensor.bytes_begin() + at * kFractalBytes, lanes * 32, "Mmad", where);
    }
  }
}

template <typename C, typename A, typename B>
void NoteProduct(const LocalTensor<C>& c, const LocalTensor<A>& a, const LocalTensor<B>& b, const MmadParams& p,
                 bool adds, Where where) {
  constexpr uint32_t kFewFractals = 10;
  const auto s = ShapeOf<A>(p);
  const uint64_t bytes = uint64_t{s.fractals_m} * s.fractals_n * 16 * 16 * sizeof(C);
  const twin::ascendc::FractalMatrix left{a.bytes_begin(), "A", s.m, s.fractals_m, s.fractals_k, s.fractals_k, 1},
      right{b.bytes_begin(), "B", s.n, s.fractals_n, s.fractals_k, 1, s.fractals_n};
  ReadsLanes(a, left, where);
  ReadsLanes(b, right, where);
  auto* checker = twin::ascendc::ThisCore().checker;
  const auto place = policy::At("Mmad", where);
  checker->Multiplied(left, right, 32 / sizeof(A), place);
  checker->UnitFlagOfProduct(c.data(), bytes, p.unitFlag, place);
  if (adds && s.fractals_m * s.fractals_n < kFewFractals) checker->AfterProduct(c.data(), place);
  if (adds) policy::Reads(PIPE_M, c.data(), bytes, "Mmad", where);
  policy::Writes(PIPE_M, c.data(), bytes, "Mmad", where);
}

template <typename C, typename A, typename B>
void Multiply(const LocalTensor<C>& c, const LocalTensor<A>& a, const LocalTensor<B>& b, const C* bias,
              const MmadParams& p, Where where) {
  static_assert(CanMultiply<C, A, B>(), "Mmad multiplies half, bfloat16_t or float into float, or int8_t into int32_t");
  WantsProduct(c, a, b, p, where);
  if (p.m == 0 || p.n == 0 || p.k == 0) return;
  const bool adds = bias == nullptr && (p.isBias || !p.cmatrixInitVal);
  if constexpr (policy::kChecked) NoteProduct(c, a, b, p, adds, where);
  const auto s = ShapeOf<A>(p);
  twin::ascendc::CubeWork& work = twin::ascendc::ThisCore().work;
  ++work.products, work.fractals += uint64_t{s.fractals_m} * s.fractals_n * s.fractals_k;
  const uint64_t column = uint64_t{s.fractals_m} * 16 * 16;  // elements of 16 columns of C
  if (!adds && bias == nullptr) std::memset(c.data(), 0, s.fractals_n * column * sizeof(C));
  for (uint32_t block = 0; bias != nullptr && block < s.fractals_n; ++block) {
    for (uint64_t i = 0; i < column; i += 16) std::copy_n(bias + block * 16, 16, c.data() + block * column + i);
  }
  twin::ascendc::loops::Multiply(c.data(), a.data(), b.data(), s);
}

}  // namespace cube

template <typename C, typename A, typename B>
void Mmad(const LocalTensor<C>& dst, const LocalTensor<A>& fm, const LocalTensor<B>& filter, const MmadParams& params,
          Where where = Where::Here()) {
  policy::Wants(!params.cmatrixSource, "cmatrixSource is the bias table: pass it as the fourth tensor", "Mmad", where);
  cube::Multiply<C>(dst, fm, filter, nullptr, params, where);
}

// C begins with a row of the bias table, or with what is there if cmatrixSource and cmatrixInitVal are false.
template <typename C, typename A, typename B>
void Mmad(const LocalTensor<C>& dst, const LocalTensor<A>& fm, const LocalTensor<B>& filter, const LocalTensor<C>& bias,
          const MmadParams& params, Where where = Where::Here()) {
  const bool used = params.cmatrixSource;
  policy::Wants(cube::IsIn(bias, cube::Memory::kBiasTable), "the bias is in C2", "Mmad", where);
  policy::Wants(!used || !params.cmatrixInitVal, "cmatrixSource takes the bias, cmatrixInitVal starts at 0: not both",
                "Mmad", where);
  policy::Aligned(bias.data(), 64, "Mmad", where);
  if (used) policy::Reads(PIPE_M, bias.data(), params.n * sizeof(C), "Mmad", where);
  cube::Multiply<C>(dst, fm, filter, used ? bias.data() : nullptr, params, where);
}

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
