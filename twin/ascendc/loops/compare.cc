// Comparisons: one bit an element.
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

template <CMPMODE mode, typename T, typename Second>
TWIN_INLINE void Bits(uint8_t* dst, const T* a, Second second, size_t n) {
  for (size_t i = 0; i < n; i += 8) {
    uint32_t byte = 0;
    for (size_t j = 0; j < 8; ++j) {
      byte |= static_cast<uint32_t>(Holds<mode>(Lane<T>::Get(Raw(a)[i + j]), second(i + j))) << j;
    }
    dst[i / 8] = static_cast<uint8_t>(byte);
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

#define TWIN_DEFINE(T)                                                                                      \
  TWIN_CLONES void Compare(uint8_t* dst, const T* a, const T* b, CMPMODE mode, size_t n) {                  \
    ByMode(                                                                                                 \
        dst, a, [b](size_t i) __attribute__((always_inline)) { return Lane<T>::Get(Raw(b)[i]); }, mode, n); \
  }                                                                                                         \
  TWIN_CLONES void CompareScalar(uint8_t* dst, const T* a, T b, CMPMODE mode, size_t n) {                   \
    const WideOf<T> value = static_cast<WideOf<T>>(b);                                                      \
    ByMode(                                                                                                 \
        dst, a, [value](size_t) __attribute__((always_inline)) { return value; }, mode, n);                 \
  }
TWIN_DEFINE(float)
TWIN_DEFINE(half)
TWIN_DEFINE(int32_t)

}  // namespace twin::ascendc::loops
