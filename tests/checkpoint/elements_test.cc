// Element types, against arithmetic in wider types.
#include "checkpoint/elements.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "core/base/error.h"

namespace trireme {
namespace {

float Widen(DType dtype, uint16_t bits) {
  float wide = 0;
  Convert(dtype, &bits, DType::kFp32, &wide, 1);
  return wide;
}

uint16_t Narrow(DType dtype, float value) {
  uint16_t bits = 0;
  Convert(DType::kFp32, &value, dtype, &bits, 1);
  return bits;
}

TEST(Elements, EveryHalfSurvivesConversionToFp32AndBack) {
  for (const DType dtype : {DType::kBf16, DType::kFp16}) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const float wide = Widen(dtype, static_cast<uint16_t>(bits));
      if (std::isnan(wide)) {
        EXPECT_TRUE(std::isnan(Widen(dtype, Narrow(dtype, wide))));
      } else {
        ASSERT_EQ(Narrow(dtype, wide), bits) << Name(dtype);
      }
    }
  }
}

TEST(Elements, RoundsToTheNearestTiesToEven) {
  std::mt19937 random(2);
  for (const DType dtype : {DType::kBf16, DType::kFp16}) {
    for (int i = 0; i < 200'000; ++i) {
      const auto low = static_cast<uint16_t>(random() % 0x7b00);  // finite and positive, as is the next one
      const double a = Widen(dtype, low), b = Widen(dtype, static_cast<uint16_t>(low + 1));
      const double middle = (a + b) / 2;
      const auto tie = static_cast<float>(middle);
      if (static_cast<double>(tie) == middle) {
        EXPECT_EQ(Narrow(dtype, tie), low + low % 2) << Name(dtype) << " " << low;
      }
      const float below = std::nextafter(tie, 0.0f), above = std::nextafter(tie, 1e38f);
      if (below > a) {
        EXPECT_EQ(Narrow(dtype, below), low) << Name(dtype);
      }
      if (above < b) {
        EXPECT_EQ(Narrow(dtype, above), low + 1) << Name(dtype);
      }
    }
  }
  EXPECT_EQ(Narrow(DType::kFp16, 65520.0f), 0x7c00);  // above the largest
  EXPECT_EQ(Narrow(DType::kFp16, 65519.0f), 0x7bff);
  EXPECT_EQ(Narrow(DType::kBf16, INFINITY), 0x7f80);
}

TEST(Elements, TypesThatDoNotConvertAreNamed) {
  EXPECT_FALSE(CanConvert(DType::kInt64, DType::kFp32));
  EXPECT_TRUE(CanConvert(DType::kInt64, DType::kInt64));
  int64_t whole = 1;
  float target = 0;
  try {
    Convert(DType::kInt64, &whole, DType::kFp32, &target, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "conversion from int64 to fp32 is not supported");
  }
}

TEST(Elements, BoxesBetweenAnyStrides) {
  std::vector<float> source(4 * 5 * 6), target(source.size(), -1);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<float>(i);
  // The box [2, 3, 4] at (1, 1, 2), its last two dims swapped by the copy.
  const Shape extent = {2, 3, 4};
  CopyBox(extent, {DType::kFp32, &source[1 * 30 + 1 * 6 + 2], {30, 6, 1}}, {DType::kFp32, target.data(), {12, 1, 3}});
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      for (int64_t k = 0; k < 4; ++k) {
        EXPECT_EQ(target[static_cast<size_t>(i * 12 + j + k * 3)],
                  static_cast<float>((1 + i) * 30 + (1 + j) * 6 + 2 + k));
      }
    }
  }
  EXPECT_EQ(target[24], -1);  // and nothing else
}

}  // namespace
}  // namespace trireme
