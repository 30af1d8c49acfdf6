// Division and multiples of whole numbers, rounded up. Neither is negative.
#pragma once

namespace trireme {

template <typename Number, typename Divisor>
constexpr auto DivideUp(Number number, Divisor divisor) {
  return (number + divisor - 1) / divisor;
}

// The smallest multiple that is not below it.
template <typename Number, typename Multiple>
constexpr auto RoundUp(Number number, Multiple multiple) {
  return DivideUp(number, multiple) * multiple;
}

}  // namespace trireme
