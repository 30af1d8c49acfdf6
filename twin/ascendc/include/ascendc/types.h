// half, bfloat16_t and int4b_t: storage, and conversion to and from float. Arithmetic on them belongs to the
// vector functions; bfloat16_t has none on the device either. Like numbers, they start uninitialised.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace twin::ascendc {

// Branch-free, so that loops over them vectorise.
inline __attribute__((always_inline)) float HalfToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16, rest = bits & 0x7fffu;
  // Exponent and fraction shifted into place, the exponent bias corrected by a multiplication: exact, also
  // for infinities once their exponent is raised.
  const uint32_t lifted = rest >= 0x7c00u ? 0x38000000u : 0u;
  const float scaled = std::bit_cast<float>(rest << 13) * 0x1p112f;
  const uint32_t wide = std::bit_cast<uint32_t>(scaled) | lifted;
  return std::bit_cast<float>(wide | sign);
}

// To nearest, ties to even; a NaN becomes a quiet NaN.
inline __attribute__((always_inline)) uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), sign = (bits >> 16) & 0x8000u, size = bits & 0x7fffffffu;
  // Below 2^-14: the adder rounds at the last bit of a denormal half.
  const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5f) - 0x3f000000u;
  const uint32_t normal = (size + 0xfffu + ((size >> 13) & 1u) - 0x38000000u) >> 13;
  const uint32_t finite = size < 0x38800000u ? small : normal;
  const uint32_t limited = size >= 0x477ff000u ? 0x7c00u : finite;  // 65520 and above round to infinity
  return static_cast<uint16_t>((size > 0x7f800000u ? 0x7e00u : limited) | sign);
}

inline __attribute__((always_inline)) float Bf16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// The selection is done in 32 bits, so that loops narrow once.
inline __attribute__((always_inline)) uint16_t FloatToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  return static_cast<uint16_t>((value != value ? bits | 0x400000u : rounded) >> 16);
}

}  // namespace twin::ascendc

struct half {
  uint16_t bits;
  half() = default;
  half(float value) : bits(twin::ascendc::FloatToHalf(value)) {}
  half(double value) : half(static_cast<float>(value)) {}
  template <typename Int>
    requires std::is_integral_v<Int>
  half(Int value) : half(static_cast<float>(value)) {}
  operator float() const { return twin::ascendc::HalfToFloat(bits); }
};

struct bfloat16_t {
  uint16_t bits;
  bfloat16_t() = default;
  bfloat16_t(float value) : bits(twin::ascendc::FloatToBf16(value)) {}
  bfloat16_t(double value) : bfloat16_t(static_cast<float>(value)) {}
  template <typename Int>
    requires std::is_integral_v<Int>
  bfloat16_t(Int value) : bfloat16_t(static_cast<float>(value)) {}
  operator float() const { return twin::ascendc::Bf16ToFloat(bits); }
};

namespace AscendC {

// Two per byte, the lower half first; only ever copied and cast.
struct int4b_t {
  int8_t pair = 0;
  bool operator==(const int4b_t&) const = default;
};

template <typename A, typename B>
struct IsSameType {
  static constexpr bool value = std::is_same_v<A, B>;
};

inline float ToFloat(const bfloat16_t& value) { return value; }
inline bfloat16_t ToBfloat16(const float& value) { return value; }

// How many bytes n elements take.
template <typename T>
constexpr uint64_t BytesOf(uint64_t n) {
  return n * sizeof(T);
}
template <>
constexpr uint64_t BytesOf<int4b_t>(uint64_t n) {
  return n / 2;
}

}  // namespace AscendC
using AscendC::int4b_t;
