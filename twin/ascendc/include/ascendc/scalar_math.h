// What kernels compute with single numbers: rounding up to multiples, min and max, casts; and ASSERT and branch hints,
// which a device's compiler knows without a header. No function here touches a tensor.
#pragma once

#include <bit>
#include <type_traits>

#include "ascendc/loops.h"

namespace twin::ascendc {
template <typename A, typename B>
concept Numbers = std::is_arithmetic_v<A> && std::is_arithmetic_v<B>;
}  // namespace twin::ascendc

namespace AscendC {

// A divisor of 0 does not stop the device's scalar unit; here, too, the kernel goes on.
template <typename A, typename B>
  requires std::is_integral_v<A> && std::is_integral_v<B>
constexpr std::common_type_t<A, B> DivCeil(A a, B b) {
  using Common = std::common_type_t<A, B>;
  if (b == 0) return 0;
  return static_cast<Common>((static_cast<Common>(a) + static_cast<Common>(b) - 1) / static_cast<Common>(b));
}
template <typename A, typename B>
  requires std::is_integral_v<A> && std::is_integral_v<B>
constexpr std::common_type_t<A, B> Ceil(A a, B b) {
  return DivCeil(a, b);
}
template <typename A, typename B>
  requires std::is_integral_v<A> && std::is_integral_v<B>
constexpr std::common_type_t<A, B> AlignUp(A a, B b) {
  return static_cast<std::common_type_t<A, B>>(DivCeil(a, b) * static_cast<std::common_type_t<A, B>>(b));
}

// The types that the vector function Cast knows.
template <typename From, typename To, RoundMode mode>
To ScalarCast(From value) {
  To result;
  twin::ascendc::loops::Cast(&result, &value, mode, 1);
  return result;
}

// The lowest bit of this value; -1: there is none.
template <int value>
constexpr int64_t ScalarGetSFFValue(uint64_t bits) {
  const uint64_t wanted = value == 1 ? bits : ~bits;
  return wanted == 0 ? -1 : std::countr_zero(wanted);
}

class AscendCUtils {
 public:
  static constexpr uint64_t GetBitSize(uint64_t bytes) { return bytes * 8; }
};

}  // namespace AscendC

// Names of the device compiler, in no namespace.
template <typename A, typename B>
  requires twin::ascendc::Numbers<A, B>
constexpr std::common_type_t<A, B> min(A a, B b) {
  using Common = std::common_type_t<A, B>;
  return static_cast<Common>(b) < static_cast<Common>(a) ? static_cast<Common>(b) : static_cast<Common>(a);
}
template <typename A, typename B>
  requires twin::ascendc::Numbers<A, B>
constexpr std::common_type_t<A, B> max(A a, B b) {
  using Common = std::common_type_t<A, B>;
  return static_cast<Common>(a) < static_cast<Common>(b) ? static_cast<Common>(b) : static_cast<Common>(a);
}
constexpr uint64_t sbitset0(uint64_t bits, int64_t at) { return bits & ~(uint64_t{1} << at); }
constexpr uint64_t sbitset1(uint64_t bits, int64_t at) { return bits | uint64_t{1} << at; }
#ifndef likely
constexpr bool likely(bool condition) { return __builtin_expect(condition, true); }
#endif
#ifndef unlikely
constexpr bool unlikely(bool condition) { return __builtin_expect(condition, false); }
#endif
#ifndef ASSERT
#define ASSERT(...) \
  ((__VA_ARGS__) ? (void)0 : twin::ascendc::Fail("ASSERT", #__VA_ARGS__ " does not hold", __FILE__, __LINE__))
#endif
