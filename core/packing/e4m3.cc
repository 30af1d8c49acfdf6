#include "core/packing/e4m3.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace trireme {
namespace {

constexpr int kFp8Bias = 7, kFp8FractionBits = 3;
constexpr uint8_t kFp8Sign = 0x80, kFp8LargestCode = 0x7E;

std::array<float, 256> AllFp8Values() {
  std::array<float, 256> values{};
  for (int code = 0; code < 256; ++code) {
    const int exponent = code >> kFp8FractionBits & 15, fraction = code & 7;
    const int whole = exponent == 0 ? fraction : fraction + 8;
    const float size = std::ldexp(static_cast<float>(whole), std::max(exponent, 1) - kFp8Bias - kFp8FractionBits);
    values[static_cast<size_t>(code)] = (code & 0x7F) == 0x7F ? std::nanf("") : (code & kFp8Sign) != 0 ? -size : size;
  }
  return values;
}

}  // namespace

uint8_t Fp8Of(float value) {
  constexpr uint32_t kSizeBits = 0x7FFFFFFF, kLeastNormal = 0x3C800000;  // 2^-6
  constexpr int kDropped = 20;                                           // of fp32's 23 bits of a fraction
  const auto bits = std::bit_cast<uint32_t>(value), size = bits & kSizeBits;
  const auto sign = static_cast<uint8_t>(bits >> 24 & kFp8Sign);
  if (std::isnan(value)) return sign | 0x7F;
  if (std::fabs(value) >= kFp8Largest) return sign | kFp8LargestCode;
  if (size < kLeastNormal) return static_cast<uint8_t>(sign | static_cast<int>(std::nearbyint(std::fabs(value) * 512)));
  // A carry goes into the exponent by itself.
  const uint32_t rounded = (size + (1U << (kDropped - 1)) - 1 + (size >> kDropped & 1)) >> kDropped;
  return static_cast<uint8_t>(sign | (rounded - ((127 - kFp8Bias) << kFp8FractionBits)));
}

float FromFp8(uint8_t code) {
  static const std::array<float, 256> values = AllFp8Values();
  return values[code];
}

}  // namespace trireme
