// Rows shared out by cost: every row once, no rank with more rows than in order, and close to the best that is
// possible.
#include "train/step/row_sharing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace trireme {
namespace {

std::vector<int64_t> InOrder(size_t rows) {
  std::vector<int64_t> order(rows);
  std::iota(order.begin(), order.end(), int64_t{0});
  return order;
}

TEST(RowSharing, TwoLongRowsGoToTwoRanks) {
  const std::vector<double> costs = {9, 1, 9, 1};  // in order rank 0 would have both long ones
  const RowShares shares{.data_size = 2};
  EXPECT_DOUBLE_EQ(ImbalanceOf(costs, InOrder(4), shares), 1.8);
  const std::vector<int64_t> order = OrderByCost(costs, shares);
  EXPECT_EQ(order, (std::vector<int64_t>{0, 2, 1, 3}));
  EXPECT_DOUBLE_EQ(ImbalanceOf(costs, order, shares), 1);
}

TEST(RowSharing, RowsOfAMicroBatchCostAboutTheSame) {
  const std::vector<double> costs = {4, 1, 4, 1, 4, 1, 4, 1};
  EXPECT_EQ(OrderByCost(costs, {.data_size = 2, .micro_batch = 2}), (std::vector<int64_t>{0, 4, 2, 6, 1, 5, 3, 7}));
}

TEST(RowSharing, EveryRowIsTrainedOnce) {
  std::mt19937 random(7);
  for (int rows = 0; rows < 40; ++rows) {
    for (const RowShares shares : {RowShares{1, 1}, RowShares{2, 1}, RowShares{3, 2}, RowShares{8, 4}}) {
      std::vector<double> costs(static_cast<size_t>(rows));
      for (double& cost : costs) cost = 1 + random() % 1000;
      std::vector<int64_t> order = OrderByCost(costs, shares);
      std::sort(order.begin(), order.end());
      EXPECT_EQ(order, InOrder(costs.size()));
    }
  }
}

TEST(RowSharing, ManyRowsOfDifferentSizesAreWithinAFewPercent) {
  std::mt19937 random(3);
  std::vector<double> costs(128);
  for (double& cost : costs) cost = 1 << (random() % 8);
  const RowShares shares{.data_size = 8};
  EXPECT_GT(ImbalanceOf(costs, InOrder(costs.size()), shares), 1.2);
  EXPECT_LT(ImbalanceOf(costs, OrderByCost(costs, shares), shares), 1.02);
}

}  // namespace
}  // namespace trireme
