// Rows over data-parallel ranks: every row once, the same number of micro batches on every rank, shifted
// labels.
#include "train/batches.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

std::vector<Row> SomeRows(int count) {
  std::vector<Row> rows;
  for (int64_t i = 0; i < count; ++i) {
    Row row;
    for (int64_t j = 0; j <= i % 5; ++j) row.input_ids.push_back(100 * i + j);
    row.labels = row.input_ids;
    rows.push_back(row);
  }
  return rows;
}

TEST(Batches, EveryRowIsOnOneRankAndEveryRankHasAsManyBatches) {
  for (int data_size : {1, 2, 3}) {
    for (int micro_batch : {1, 2, 4}) {
      const std::vector<Row> rows = SomeRows(8);
      std::map<int64_t, int> seen;
      size_t batches = 0;
      for (int rank = 0; rank < data_size; ++rank) {
        const auto mine = MakeMicroBatches(
            rows, {.micro_batch = micro_batch, .data_rank = rank, .data_size = data_size, .multiple = 4});
        if (rank > 0) {
          EXPECT_EQ(mine.size(), batches);
        }
        batches = mine.size();
        for (const MicroBatch& batch : mine) {
          EXPECT_EQ(batch.length % 4, 0);
          EXPECT_EQ(batch.tokens.numel(), batch.rows * batch.length);
          const at::Tensor firsts = batch.tokens.view({batch.rows, batch.length}).select(1, 0);
          for (int64_t row = 0; row < batch.rows; ++row) seen[firsts[row].item<int64_t>()] += 1;
        }
      }
      for (int64_t i = 1; i < 8; ++i) EXPECT_EQ(seen[100 * i], 1) << "row " << i;
    }
  }
}

TEST(Batches, LabelsAreTheNextTokens) {
  const auto batches = MakeMicroBatches({{{5, 6, 7}, {5, -100, 7}}}, {.multiple = 4});
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_TRUE(at::equal(batches[0].tokens, at::tensor({5, 6, 7, 0}, at::kLong)));
  EXPECT_TRUE(at::equal(batches[0].labels, at::tensor({-100, 7, -100, -100}, at::kLong)));
  EXPECT_TRUE(at::equal(batches[0].positions, at::tensor({0, 1, 2, 3}, at::kLong)));
  EXPECT_DOUBLE_EQ(batches[0].loss_scale, 1.0);
}

}  // namespace
}  // namespace trireme
