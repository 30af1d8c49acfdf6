// Rotary frequencies against numbers worked out by hand from the published rules.
#include "parallel/graph/rope.h"

#include <cmath>

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(InverseFrequencies, DefaultOnesFallGeometrically) {
  const auto frequencies = InverseFrequencies({.theta = 10000.0, .rotary_dim = 8});
  ASSERT_EQ(frequencies.size(), 4u);
  EXPECT_DOUBLE_EQ(frequencies[0], 1.0);
  EXPECT_NEAR(frequencies[1], 0.1, 1e-12);
  EXPECT_NEAR(frequencies[3], 0.001, 1e-12);
}

TEST(InverseFrequencies, Llama3KeepsShortWavelengthsScalesLongOnesAndInterpolates) {
  RopeSpec rope{.theta = 1e6, .rotary_dim = 12, .scaling = RopeSpec::Scaling::kLlama3, .factor = 8.0};
  rope.original_positions = 8192;
  RopeSpec plain = rope;
  plain.scaling = RopeSpec::Scaling::kNone;
  const auto before = InverseFrequencies(plain), after = InverseFrequencies(rope);
  int kept = 0, stretched = 0, blended = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    const double turns = 8192.0 * before[i] / (2.0 * M_PI);
    if (turns > 4.0) {
      EXPECT_DOUBLE_EQ(after[i], before[i]) << i;
      ++kept;
    } else if (turns < 1.0) {
      EXPECT_DOUBLE_EQ(after[i], before[i] / 8.0) << i;
      ++stretched;
    } else {
      const double smooth = (turns - 1.0) / 3.0;
      EXPECT_NEAR(after[i], before[i] * ((1.0 - smooth) / 8.0 + smooth), 1e-15) << i;
      ++blended;
    }
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(stretched, 0);
  EXPECT_GT(blended, 0);
}

TEST(InverseFrequencies, DynamicOnesSlowDownWithWhatExceedsTheLimit) {
  RopeSpec rope{.theta = 10000.0, .rotary_dim = 8, .scaling = RopeSpec::Scaling::kDynamic, .factor = 2.0};
  rope.longest_positions = 32;
  const std::vector<double> plain = InverseFrequencies({.theta = 10000.0, .rotary_dim = 8});
  EXPECT_EQ(LengthLimit(rope), 32);
  for (const int64_t length : {1, 32}) {
    EXPECT_EQ(InverseFrequencies(rope, length), plain) << length;
    EXPECT_EQ(LengthClass(rope, length), 0) << length;
  }
  EXPECT_NE(LengthClass(rope, 33), LengthClass(rope, 34)) << "every length has its own";
  // Half more than the limit: the base grows by (2 · 1.5 - 1) to the power of 8 / 6.
  const std::vector<double> longer = InverseFrequencies(rope, 48);
  for (size_t pair = 0; pair < plain.size(); ++pair) {
    const double slower = std::pow(std::pow(2.0, 8.0 / 6.0), -2.0 * static_cast<double>(pair) / 8.0);
    EXPECT_NEAR(longer[pair], plain[pair] * slower, 1e-15) << pair;
  }
}

TEST(InverseFrequencies, LongropeHasTwoFactorsForEachPair) {
  RopeSpec rope{.theta = 10000.0, .rotary_dim = 8, .scaling = RopeSpec::Scaling::kLongrope, .original_positions = 16};
  rope.longest_positions = 64;
  rope.short_factors = {1, 2, 3, 4};
  rope.long_factors = {5, 6, 7, 8};
  const std::vector<double> plain = InverseFrequencies({.theta = 10000.0, .rotary_dim = 8});
  for (size_t pair = 0; pair < plain.size(); ++pair) {
    EXPECT_DOUBLE_EQ(InverseFrequencies(rope, 16)[pair], plain[pair] / rope.short_factors[pair]);
    EXPECT_DOUBLE_EQ(InverseFrequencies(rope, 17)[pair], plain[pair] / rope.long_factors[pair]);
  }
  EXPECT_EQ(InverseFrequencies(rope), InverseFrequencies(rope, 16));
  EXPECT_EQ(LengthClass(rope, 16), 0);
  EXPECT_EQ(LengthClass(rope, 17), LengthClass(rope, 64));
  EXPECT_EQ(LengthClass({.theta = 10000.0, .rotary_dim = 8}, 1 << 20), 0) << "no other depends on the length";
}

}  // namespace
}  // namespace trireme
