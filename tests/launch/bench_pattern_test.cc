// The data that check and bench use: its sums are correct, and a wrong element is found.
#include <gtest/gtest.h>

#include <cstring>

#include "launch/pattern.h"

namespace trireme {
namespace {

TEST(Pattern, SumIsTheSumOfTheValues) {
  for (int ranks = 1; ranks <= 20; ++ranks) {
    for (size_t i = 0; i < 7; ++i) {
      int sum = 0;
      for (int rank = 0; rank < ranks; ++rank) sum += PatternValue(rank, i);
      EXPECT_EQ(PatternSum(ranks, i), sum) << ranks << " ranks, element " << i;
    }
  }
}

TEST(Pattern, BitsAreThoseOfTheType) {
  const auto bits = [](DType dtype, int value) {
    uint64_t bits = 0;
    const auto data = MakePattern(dtype, 1, [value](size_t) { return value; });
    std::memcpy(&bits, data.data(), data.size());
    return bits;
  };
  EXPECT_EQ(bits(DType::kFp32, 3), 0x40400000u);
  EXPECT_EQ(bits(DType::kBf16, 3), 0x4040u);
  EXPECT_EQ(bits(DType::kFp16, 3), 0x4200u);
  EXPECT_EQ(bits(DType::kFp16, 1), 0x3c00u);
  EXPECT_EQ(bits(DType::kFp16, 100), 0x5640u);
  EXPECT_EQ(bits(DType::kInt8, 100), 100u);
  EXPECT_EQ(bits(DType::kFp64, 1), 0x3ff0000000000000u);
}

TEST(Pattern, TheFirstDifferenceIsNamed) {
  const auto formula = [](size_t i) { return PatternValue(1, i); };
  for (DType dtype : {DType::kFp32, DType::kBf16, DType::kInt8, DType::kInt64}) {
    auto data = MakePattern(dtype, 100, formula);
    EXPECT_EQ(ComparePattern(dtype, data.data(), 100, formula), "") << Name(dtype);
    data[42 * ByteSize(dtype)] ^= std::byte{1};
    EXPECT_NE(ComparePattern(dtype, data.data(), 100, formula).find("element 42 of 100"), std::string::npos);
  }
}

}  // namespace
}  // namespace trireme
