// bf16 and fp16 to fp32 and back, as branch-free integer arithmetic that compilers vectorise on any machine.
// Rounds to nearest even; a NaN stays a NaN.
#pragma once

#include <bit>
#include <cstdint>

namespace twin {

#define TWIN_INLINE inline __attribute__((always_inline))

TWIN_INLINE float Bf16ToFloat(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

TWIN_INLINE uint16_t FloatToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x0040u;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
}

TWIN_INLINE float Fp16ToFloat(uint16_t bits) {
  const uint32_t magnitude = (bits & 0x7fffu) << 13;
  // Changes the exponent bias from 15 to 127; being a multiplication, it also handles subnormals correctly.
  const uint32_t finite = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  const uint32_t special = magnitude | 0x7f800000u;
  const uint32_t sign = (bits & 0x8000u) << 16;
  return std::bit_cast<float>(((bits & 0x7c00u) == 0x7c00u ? special : finite) | sign);
}

// All ones if `condition`, else zero: selecting by mask keeps every arm unconditional, which vectorisation
// needs.
TWIN_INLINE uint32_t Mask(bool condition) { return 0u - static_cast<uint32_t>(condition); }

TWIN_INLINE uint16_t FloatToFp16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  // Normal results: re-bias and round in integers; a carry out of the mantissa correctly increments the
  // exponent.
  const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Subnormal results: adding 0.5 makes the adder align and round the mantissa at fp16's last bit.
  const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t is_subnormal = Mask(magnitude < 0x38800000u);
  const uint32_t is_infinite = Mask(magnitude >= 0x477ff000u);
  const uint32_t is_nan = Mask(magnitude > 0x7f800000u);
  const uint32_t finite = (subnormal & is_subnormal) | (normal & ~is_subnormal);
  const uint32_t half = (finite & ~is_infinite) | (0x7c00u & is_infinite) | (0x0200u & is_nan);
  return static_cast<uint16_t>(half | ((bits >> 16) & 0x8000u));
}

}  // namespace twin
