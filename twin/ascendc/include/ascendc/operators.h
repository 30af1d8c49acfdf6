// Operators over whole tensors: dst = a + b computes as many elements as dst has; dst = a < b compares as
// many as a has, one bit each.
#pragma once

#include <type_traits>

#include "ascendc/binary.h"
#include "ascendc/compare.h"

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {

#define TWIN_OPERATOR(symbol, function)                                                        \
  template <typename T>                                                                        \
  auto operator symbol(const LocalTensor<T>& a, const std::type_identity_t<RightSide<T>>& b) { \
    return WholeTensors{[a, b](const LocalTensor<T>& dst) {                                    \
      function(dst, a, b.tensor, static_cast<int32_t>(dst.GetSize()), b.where);                \
    }};                                                                                        \
  }
TWIN_OPERATOR(+, Add)
TWIN_OPERATOR(-, Sub)
TWIN_OPERATOR(*, Mul)
TWIN_OPERATOR(/, Div)
TWIN_OPERATOR(&, And)
TWIN_OPERATOR(|, Or)
#undef TWIN_OPERATOR

#define TWIN_COMPARISON(symbol, mode)                                                                                 \
  template <typename T>                                                                                               \
  auto operator symbol(const LocalTensor<T>& a, const std::type_identity_t<RightSide<T>>& b) {                        \
    return WholeTensors{[a, b](const auto& dst) { Compare(dst, a, b.tensor, CMPMODE::mode, a.GetSize(), b.where); }}; \
  }
TWIN_COMPARISON(<, LT)
TWIN_COMPARISON(>, GT)
TWIN_COMPARISON(==, EQ)
TWIN_COMPARISON(<=, LE)
TWIN_COMPARISON(>=, GE)
TWIN_COMPARISON(!=, NE)
#undef TWIN_COMPARISON

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
