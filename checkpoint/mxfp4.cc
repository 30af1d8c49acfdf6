// MXFP4, in which GPT-OSS is published: groups of 32 elements of 4 bits (sign, two bits of exponent, one of fraction)
// that share a scale, a power of two in 8 bits. Files hold the transposed matrices of all experts of a layer,
// NAME_blocks [experts, out, in / 32, 16] and NAME_scales [experts, out, in / 32], both uint8; decoded they are
// [experts, in, out] in bf16, which holds every value exactly.
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "checkpoint/packed_format.h"
#include "core/base/error.h"

namespace trireme {
namespace {

constexpr int64_t kGroupBytes = 16, kGroupSize = 2 * kGroupBytes;
constexpr int kScaleBias = 127;
constexpr std::array<float, 16> kE2M1 = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                         -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

uint16_t ExactBf16(float value) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16); }

// The 16 values times each scale.
std::vector<std::array<uint16_t, 16>> ScaledE2M1() {
  std::vector<std::array<uint16_t, 16>> table(256);
  for (int scale = 0; scale < 256; ++scale) {
    for (size_t code = 0; code < kE2M1.size(); ++code) {
      table[static_cast<size_t>(scale)][code] = ExactBf16(std::ldexp(kE2M1[code], scale - kScaleBias));
    }
  }
  return table;
}

TensorView DescribeMxfp4(const PackedFormat::Parts& parts, const std::string& where) {
  const TensorView &blocks = parts[0], &scales = parts[1];
  if (blocks.dtype != DType::kUint8 || blocks.shape.size() != 4 || blocks.shape[3] != kGroupBytes) {
    throw InputError(where, ": its blocks are ", ShapeText(blocks.shape), " in ", Name(blocks.dtype),
                     "; wanted [experts, out, groups, 16] in uint8");
  }
  const Shape groups(blocks.shape.begin(), blocks.shape.end() - 1);
  if (scales.dtype != DType::kUint8 || scales.shape != groups) {
    throw InputError(where, ": its scales are ", ShapeText(scales.shape), " in ", Name(scales.dtype), "; wanted ",
                     ShapeText(groups), " in uint8, one for each group of its blocks");
  }
  return {DType::kBf16, {groups[0], groups[2] * kGroupSize, groups[1]}, {}};
}

void DecodeMxfp4(const PackedFormat::Parts& parts, std::span<std::byte> target) {
  static const std::vector<std::array<uint16_t, 16>> table = ScaledE2M1();
  const int64_t experts = parts[1].shape[0], outputs = parts[1].shape[1], groups = parts[1].shape[2];
  const auto* codes = reinterpret_cast<const uint8_t*>(parts[0].bytes.data());
  const auto* scales = reinterpret_cast<const uint8_t*>(parts[1].bytes.data());
  auto* values = reinterpret_cast<uint16_t*>(target.data());
  for (int64_t expert = 0; expert < experts; ++expert) {
    for (int64_t group = 0; group < groups; ++group) {
      for (int64_t output = 0; output < outputs; ++output) {
        const int64_t index = (expert * outputs + output) * groups + group;
        const std::array<uint16_t, 16>& scaled = table[scales[index]];
        uint16_t* column = values + (expert * groups + group) * kGroupSize * outputs + output;
        for (int64_t byte = 0; byte < kGroupBytes; ++byte) {
          const uint8_t pair = codes[index * kGroupBytes + byte];
          column[2 * byte * outputs] = scaled[pair & 15];
          column[(2 * byte + 1) * outputs] = scaled[pair >> 4];
        }
      }
    }
  }
}

}  // namespace

PackedFormat Mxfp4Format() {
  return {.name = "mxfp4",
          .endings = {"_blocks", "_scales"},
          .ending = "",
          .describe = DescribeMxfp4,
          .decode = DecodeMxfp4};
}

}  // namespace trireme
