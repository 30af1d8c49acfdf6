// Matrices in fp8 with scales of blocks: every code is the nearest of its value, blocks at the edges are smaller, and
// what was packed once is packed to the same codes again.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>

#include "checkpoint/elements.h"
#include "checkpoint/fp8_blocks.h"
#include "tests/checkpoint/scratch.h"

namespace trireme {
namespace {

TEST(Fp8Blocks, EveryCodeIsTheOneOfItsValue) {
  for (int code = 0; code < 256; ++code) {
    const float value = FromFp8(static_cast<uint8_t>(code));
    if (std::isnan(value)) continue;
    EXPECT_EQ(static_cast<int>(Fp8Of(value)), code) << value;
  }
  EXPECT_EQ(FromFp8(0x7E), 448.0F);
  EXPECT_EQ(FromFp8(0x01), std::ldexp(1.0F, -9));
}

// Between neighbours to the nearer, in the middle to the even code.
TEST(Fp8Blocks, RoundsToTheNearest) {
  for (int code = 0; code < 0x7E; ++code) {
    const float low = FromFp8(static_cast<uint8_t>(code)), high = FromFp8(static_cast<uint8_t>(code + 1)),
                middle = (low + high) / 2;
    EXPECT_EQ(Fp8Of(middle), code % 2 == 0 ? code : code + 1) << middle;
    EXPECT_EQ(Fp8Of(std::nextafter(middle, 0.0F)), code) << middle;
    EXPECT_EQ(Fp8Of(-std::nextafter(middle, 1e9F)), 0x80 | (code + 1)) << middle;
  }
  EXPECT_EQ(Fp8Of(1e6F), 0x7E);
}

constexpr int64_t kRows = 130, kColumns = 200;

std::vector<float> Matrix() {
  std::vector<float> values(kRows * kColumns);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 37 % 1001) - 500;
  for (size_t i = 128 * kColumns; i < values.size(); ++i) values[i] /= 1024;  // the lower blocks
  return values;
}

TensorView View(DType dtype, const Shape& shape, const void* data) {
  return {dtype, shape, {static_cast<const std::byte*>(data), static_cast<size_t>(Elements(shape) * ByteSize(dtype))}};
}

TEST(Fp8Blocks, BlocksAtTheEdgesHaveScalesOfTheirOwn) {
  const std::vector<float> values = Matrix();
  const Fp8Matrix packed = PackFp8(values, kRows, kColumns);
  ASSERT_EQ(packed.scales.size(), 4U);
  const std::vector<float> decoded =
      DecodeFp8(View(DType::kFp8E4M3, {kRows, kColumns}, packed.codes.data()), packed.scales);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(decoded[i], values[i], std::fabs(values[i]) / 16) << i;
  EXPECT_EQ(PackFp8(decoded, kRows, kColumns).codes, packed.codes);
}

TEST(Fp8Blocks, OtherScalesAreRefused) {
  const Fp8Matrix packed = PackFp8(Matrix(), kRows, kColumns);
  EXPECT_EQ(
      ErrorOf([&] { Fp8Scales(View(DType::kFp32, {1, 4}, packed.scales.data()), {kRows, kColumns}, "w"); }),
      "w: its _scale_inv is [1, 4] in fp32; wanted [2, 2] in fp32, bf16 or fp16, one for each block of 128 x 128");
  EXPECT_EQ(
      ErrorOf([&] { Fp8Scales(View(DType::kInt32, {2, 2}, packed.scales.data()), {kRows, kColumns}, "w"); }),
      "w: its _scale_inv is [2, 2] in int32; wanted [2, 2] in fp32, bf16 or fp16, one for each block of 128 x 128");
}

// As Qwen3's files in fp8 have them.
TEST(Fp8Blocks, ScalesMayBeInHalfTheBits) {
  const std::vector<float> scales = {0.5F, 2.0F, 1.0F, 0.25F};
  for (const DType dtype : {DType::kBf16, DType::kFp16, DType::kFp32}) {
    std::vector<std::byte> bytes(scales.size() * static_cast<size_t>(ByteSize(dtype)));
    Convert(DType::kFp32, scales.data(), dtype, bytes.data(), scales.size());
    EXPECT_EQ(Fp8Scales(View(dtype, {2, 2}, bytes.data()), {kRows, kColumns}, "w"), scales) << Name(dtype);
  }
}

TEST(Fp8Blocks, TinyWeightsStayNumbers) {
  for (const float tiny : {1e-37F, 1e-39F, 1e-45F}) {
    const Fp8Matrix packed = PackFp8({tiny, 0.0F, -tiny}, 1, 3);
    const std::vector<float> decoded = DecodeFp8(View(DType::kFp8E4M3, {1, 3}, packed.codes.data()), packed.scales);
    EXPECT_NEAR(decoded[0], tiny, std::max(tiny / 16, 1e-38F));
    EXPECT_EQ(decoded[1], 0.0F);
  }
}

}  // namespace
}  // namespace trireme
