// Comparisons into one bit per element, and selection by such bits.
#include <bit>
#include <cstring>

#include "twin/ascendc/include/ascendc/loops.h"
#include "twin/ascendc/loops/simd.h"

namespace twin::ascendc::loops {
namespace {

template <CMPMODE mode, typename W>
TWIN_INLINE bool Holds(W a, W b) {
  if constexpr (mode == CMPMODE::LT) return a < b;
  if constexpr (mode == CMPMODE::GT) return a > b;
  if constexpr (mode == CMPMODE::EQ) return a == b;
  if constexpr (mode == CMPMODE::LE) return a <= b;
  if constexpr (mode == CMPMODE::GE) return a >= b;
  return a != b;
}

// One byte per element first, then eight bytes into one: the multiplication moves bit 0 of byte j to bit 56 +
// j.
template <CMPMODE mode, typename T, typename Second>
TWIN_INLINE void Bits(uint8_t* dst, const T* a, Second second, size_t n) {
  uint8_t holds[kPiece];
  for (size_t at = 0; at < n; at += kPiece) {
    const size_t count = n - at < kPiece ? n - at : kPiece;
#pragma omp simd
    for (size_t i = 0; i < count; ++i) holds[i] = Holds<mode>(Lane<T>::Get(Raw(a)[at + i]), second(at + i)) ? 1 : 0;
    for (size_t i = 0; i < count; i += 8) {
      uint64_t eight;
      std::memcpy(&eight, holds + i, 8);
      dst[(at + i) / 8] = static_cast<uint8_t>(eight * 0x0102040810204080u >> 56);
    }
  }
}

template <typename T, typename Second>
TWIN_INLINE void ByMode(uint8_t* dst, const T* a, Second second, CMPMODE mode, size_t n) {
  switch (mode) {
    case CMPMODE::LT:
      return Bits<CMPMODE::LT>(dst, a, second, n);
    case CMPMODE::GT:
      return Bits<CMPMODE::GT>(dst, a, second, n);
    case CMPMODE::EQ:
      return Bits<CMPMODE::EQ>(dst, a, second, n);
    case CMPMODE::LE:
      return Bits<CMPMODE::LE>(dst, a, second, n);
    case CMPMODE::GE:
      return Bits<CMPMODE::GE>(dst, a, second, n);
    case CMPMODE::NE:
      return Bits<CMPMODE::NE>(dst, a, second, n);
  }
}

}  // namespace

#define TWIN_DEFINE(T)                                                                                         \
  TWIN_CLONES void Compare(uint8_t* dst, const T* a, const T* b, CMPMODE mode, size_t n) {                     \
    ByMode(dst, a, [b](size_t i) __attribute__((always_inline)) { return Lane<T>::Get(Raw(b)[i]); }, mode, n); \
  }                                                                                                            \
  TWIN_CLONES void CompareScalar(uint8_t* dst, const T* a, T b, CMPMODE mode, size_t n) {                      \
    const WideOf<T> value = static_cast<WideOf<T>>(b);                                                         \
    ByMode(dst, a, [value](size_t) __attribute__((always_inline)) { return value; }, mode, n);                 \
  }
TWIN_DEFINE(float)
TWIN_DEFINE(half)
TWIN_DEFINE(int32_t)
static_assert(std::endian::native == std::endian::little, "byte j of a word is element j");

namespace {

// Eight elements share a byte of `bits`.
template <typename Word>
TWIN_INLINE void SelectBody(Word* dst, const Word* a, const Word* b, size_t b_step, const uint8_t* bits, size_t n) {
  for (size_t at = 0; at + 8 <= n; at += 8) {
    const uint32_t byte = bits[at / 8];
#pragma omp simd
    for (uint32_t j = 0; j < 8; ++j) dst[at + j] = (byte >> j & 1u) != 0 ? a[at + j] : b[(at + j) * b_step];
  }
  for (size_t i = n / 8 * 8; i < n; ++i) dst[i] = (bits[i / 8] >> (i % 8) & 1) != 0 ? a[i] : b[i * b_step];
}

}  // namespace

TWIN_CLONES void Select(uint16_t* dst, const uint16_t* a, const uint16_t* b, const uint8_t* bits, size_t n) {
  SelectBody(dst, a, b, 1, bits, n);
}
TWIN_CLONES void Select(uint32_t* dst, const uint32_t* a, const uint32_t* b, const uint8_t* bits, size_t n) {
  SelectBody(dst, a, b, 1, bits, n);
}
TWIN_CLONES void SelectScalar(uint16_t* dst, const uint16_t* a, uint16_t b, const uint8_t* bits, size_t n) {
  SelectBody(dst, a, &b, 0, bits, n);
}
TWIN_CLONES void SelectScalar(uint32_t* dst, const uint32_t* a, uint32_t b, const uint8_t* bits, size_t n) {
  SelectBody(dst, a, &b, 0, bits, n);
}

}  // namespace twin::ascendc::loops
