// Rotary frequencies against numbers worked out by hand from the published rules.
#include "parallel/graph/specs.h"

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

}  // namespace
}  // namespace trireme
