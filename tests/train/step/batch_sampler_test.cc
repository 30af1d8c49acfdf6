// Which rows a step uses: every row once per epoch, the same for the same seed, another order every epoch.
#include "train/step/batch_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace trireme {
namespace {

std::vector<int64_t> Epoch(BatchSampler& order, int64_t epoch) {
  std::vector<int64_t> rows;
  for (int64_t i = 1; i <= order.steps_per_epoch(); ++i) {
    const std::vector<int64_t> step = order.RowsOf(epoch * order.steps_per_epoch() + i);
    rows.insert(rows.end(), step.begin(), step.end());
  }
  return rows;
}

TEST(BatchSampler, FileOrderWithoutShuffling) {
  BatchSampler order({.rows = 10, .batch = 4, .shuffle = false});
  EXPECT_EQ(order.steps_per_epoch(), 3);
  EXPECT_EQ(order.RowsOf(1), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(order.RowsOf(3), (std::vector<int64_t>{8, 9}));
  EXPECT_EQ(order.RowsOf(4), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_DOUBLE_EQ(order.EpochAt(1), 0.4);
  EXPECT_DOUBLE_EQ(order.EpochAt(3), 1.0);
  EXPECT_DOUBLE_EQ(order.EpochAt(4), 1.4);
}

TEST(BatchSampler, ShufflingUsesEveryRowOncePerEpoch) {
  BatchSampler order({.rows = 100, .batch = 7, .shuffle = true, .seed = 3});
  std::set<std::vector<int64_t>> orders;
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    std::vector<int64_t> rows = Epoch(order, epoch);
    orders.insert(rows);
    std::sort(rows.begin(), rows.end());
    for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(rows[i], i);
  }
  EXPECT_EQ(orders.size(), 4U) << "two epochs have the same order";
}

TEST(BatchSampler, DependsOnlyOnTheSeedAndTheStep) {
  const BatchSamplerOptions options{.rows = 50, .batch = 8, .shuffle = true, .seed = 9};
  BatchSampler forwards(options), jumping(options), other({.rows = 50, .batch = 8, .shuffle = true, .seed = 10});
  const std::vector<int64_t> far = jumping.RowsOf(20);
  std::vector<int64_t> last;
  for (int64_t step = 1; step <= 20; ++step) last = forwards.RowsOf(step);
  EXPECT_EQ(last, far);
  EXPECT_NE(Epoch(forwards, 0), Epoch(other, 0));
}

// By hand from Megatron's rule: 1, 2 and 3 rows for two rows each, then 4; the last step of an epoch has what is left.
TEST(BatchSampler, GrowsBatches) {
  BatchSampler order(
      {.rows = 12, .batch = 4, .shuffle = false, .ramp = {.batch = 4, .start = 1, .increment = 1, .samples = 6}});
  std::vector<int64_t> firsts, sizes;
  for (int64_t step = 1; step <= 9; ++step) {
    const std::vector<int64_t> rows = order.RowsOf(step);
    firsts.push_back(rows.front());
    sizes.push_back(static_cast<int64_t>(rows.size()));
  }
  EXPECT_EQ(sizes, (std::vector<int64_t>{1, 1, 2, 3, 4, 1, 4, 4, 4}));
  EXPECT_EQ(firsts, (std::vector<int64_t>{0, 1, 2, 4, 7, 11, 0, 4, 8}));
  EXPECT_TRUE(order.EndsEpoch(6) && order.EndsEpoch(9) && !order.EndsEpoch(5));
  EXPECT_DOUBLE_EQ(order.EpochAt(7), 1 + 4 / 12.0);
  EXPECT_EQ(order.StepsOf(1), 6);
  EXPECT_EQ(order.StepsOf(2), 9);
  EXPECT_EQ(order.StepsOf(0.5), 3);
  EXPECT_EQ(order.StepsOf(1.34), 8);
  BatchSampler jumping(order.options());
  EXPECT_EQ(jumping.RowsOf(8), order.RowsOf(8));
}

}  // namespace
}  // namespace trireme
