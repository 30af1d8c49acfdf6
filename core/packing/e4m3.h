// Numbers of 8 bits with 4 of an exponent and 3 of a fraction (e4m3): up to ±448, no infinity, 0x7F and 0xFF are no
// number. And the scale of rows of them: a power of two, so that scaling loses nothing and two ranks, or both
// directions of a product, agree on what a code stands for.
#pragma once

#include <bit>
#include <cstdint>

namespace trireme {

inline constexpr float kFp8Largest = 448;
inline constexpr float kLeastFp8Row = 1e-12F;  // smaller magnitudes, and rows of zeros, are scaled as if they had this

// Rounds to nearest, of two as near to the even code; beyond 448 to that.
uint8_t Fp8Of(float value);
float FromFp8(uint8_t code);

// What codes are multiplied by in a row whose largest magnitude is this: the smallest power of two with which it stays
// within 448.
inline float Fp8RowScale(float largest) {
  constexpr uint32_t kFraction = 0x7FFFFF, kThreeQuarters = 0x600000;  // 448 = 1.75 · 2^8
  const auto bits = std::bit_cast<uint32_t>(largest > kLeastFp8Row ? largest : kLeastFp8Row);
  const uint32_t exponent = (bits >> 23) - 8 + ((bits & kFraction) > kThreeQuarters ? 1 : 0);
  return std::bit_cast<float>(exponent << 23);
}

}  // namespace trireme
