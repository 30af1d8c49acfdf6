// What answers are held against where whole distributions are compared.
#include "train/methods/preference/sorted_answers.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(SortedAnswers, RivalsStandAtTheSamePlace) {
  // Pairs: chosen, rejected. Differences 3, 1, 2; the reference's 10, 30, 20.
  const SortedAnswers sorted({4, 1, 6, 5, 9, 7}, {10, 0, 30, 0, 20, 0});
  EXPECT_EQ(sorted.rival(0), 30) << "the largest difference meets the reference's largest";
  EXPECT_EQ(sorted.rival(1), 30) << "both sides of a pair have the same";
  EXPECT_EQ(sorted.rival(2), 10);
  EXPECT_EQ(sorted.rival(4), 20);
  // Chosen log-ratios -6, -24, -11; rejected ones 1, 5, 7.
  EXPECT_EQ(sorted.unpaired_rival(0), 7);
  EXPECT_EQ(sorted.unpaired_rival(2), 1);
  EXPECT_EQ(sorted.unpaired_rival(4), 5);
  EXPECT_EQ(sorted.unpaired_rival(1), -24) << "the smallest rejected one meets the smallest chosen one";
  EXPECT_EQ(sorted.unpaired_rival(3), -11);
  EXPECT_EQ(sorted.unpaired_rival(5), -6);
}

}  // namespace
}  // namespace trireme
