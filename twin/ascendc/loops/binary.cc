// Functions of two tensors.
#include "twin/ascendc/include/ascendc/loops.h"
#include "twin/ascendc/loops/simd.h"

namespace twin::ascendc::loops {

// Integers wrap around, as the device's do.
#define TWIN_DEFINE(name, T, expression)                                                                         \
  TWIN_CLONES void name(T* dst, const T* a, const T* b, size_t n) {                                              \
    using W = WideOf<T>;                                                                                         \
    Map2(dst, a, b, n, [](W x, W y) __attribute__((always_inline)) -> W { return static_cast<W>(expression); }); \
  }
#define TWIN_DEFINE_ALL(name, floating, integer) \
  TWIN_DEFINE(name, float, floating)             \
  TWIN_DEFINE(name, half, floating)              \
  TWIN_DEFINE(name, int16_t, integer)            \
  TWIN_DEFINE(name, int32_t, integer)
#define TWIN_DEFINE_DST(name, T, expression)                                                                 \
  TWIN_CLONES void name(T* dst, const T* a, const T* b, size_t n) {                                          \
    Map3(dst, a, b, n, [](float d, float x, float y) __attribute__((always_inline)) { return expression; }); \
  }

TWIN_DEFINE_ALL(Add, x + y, static_cast<uint32_t>(x) + static_cast<uint32_t>(y))
TWIN_DEFINE_ALL(Sub, x - y, static_cast<uint32_t>(x) - static_cast<uint32_t>(y))
TWIN_DEFINE_ALL(Mul, x* y, static_cast<uint32_t>(x) * static_cast<uint32_t>(y))
// Propagates a NaN from either operand, as the device's maximum does.
TWIN_DEFINE_ALL(Max, x > y || x != x ? x : y, x > y ? x : y)
TWIN_DEFINE_ALL(Min, x < y || x != x ? x : y, x < y ? x : y)
TWIN_DEFINE(Div, float, x / y)
TWIN_DEFINE(Div, half, x / y)
TWIN_DEFINE(AddRelu, float, x + y > 0 ? x + y : 0)
TWIN_DEFINE(AddRelu, half, x + y > 0 ? x + y : 0)
TWIN_DEFINE(SubRelu, float, x - y > 0 ? x - y : 0)
TWIN_DEFINE(SubRelu, half, x - y > 0 ? x - y : 0)
TWIN_DEFINE(And, int16_t, x& y)
TWIN_DEFINE(And, uint16_t, x& y)
TWIN_DEFINE(And, uint8_t, x& y)
TWIN_DEFINE(Or, int16_t, x | y)
TWIN_DEFINE(Or, uint16_t, x | y)
TWIN_DEFINE(Or, uint8_t, x | y)
TWIN_DEFINE_DST(MulAddDst, float, d + x * y)
TWIN_DEFINE_DST(MulAddDst, half, d + x * y)
TWIN_DEFINE_DST(FusedMulAdd, float, x* d + y)
TWIN_DEFINE_DST(FusedMulAdd, half, x* d + y)
TWIN_DEFINE_DST(FusedMulAddRelu, float, x* d + y > 0 ? x * d + y : 0)
TWIN_DEFINE_DST(FusedMulAddRelu, half, x* d + y > 0 ? x * d + y : 0)

}  // namespace twin::ascendc::loops
