// Edit distance against hand-counted cases, and which suggestion an error makes.
#include "core/base/nearest.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(NearestTest, EditDistance) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("tensr", "tensor"), 1);
  EXPECT_EQ(EditDistance("tenosr", "tensor"), 1);  // two adjacent letters swapped
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("ab", "ba"), EditDistance("ba", "ab"));
}

TEST(NearestTest, SuggestsTheClosest) {
  EXPECT_EQ(Nearest("tran", {"grads", "train", "trains"}), "train");
  EXPECT_EQ(Nearest("train", {"grads", "train"}), "train");
}

TEST(NearestTest, SuggestsNothingIfAllAreFar) {
  EXPECT_EQ(Nearest("frobnicate", {"grads", "train"}), std::nullopt);
  EXPECT_EQ(Nearest("x", {}), std::nullopt);
}

}  // namespace
}  // namespace trireme
