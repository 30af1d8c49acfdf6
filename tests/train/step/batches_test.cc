// Rows over data-parallel ranks: every row once, the same number of micro batches on every rank, shifted
// labels.
#include "train/step/batches.h"

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

TEST(Batches, EveryRowIsOnOneRankAndEveryRankHasTheSameNumberOfBatches) {
  for (int data_size : {1, 2, 3}) {
    for (int micro_batch : {1, 2, 4}) {
      const std::vector<Row> rows = SomeRows(8);
      std::map<int64_t, int> seen;
      size_t batches = 0;
      for (int rank = 0; rank < data_size; ++rank) {
        const auto mine = MakePassInputs(
            rows, {.micro_batch = micro_batch, .data_rank = rank, .data_size = data_size, .multiple = 4});
        if (rank > 0) {
          EXPECT_EQ(mine.size(), batches);
        }
        batches = mine.size();
        for (const PassInput& batch : mine) {
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
  const std::vector<Row> rows = {{{5, 6, 7}, {5, -100, 7}}};
  const auto batches = MakePassInputs(rows, {.multiple = 4});
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_TRUE(at::equal(batches[0].tokens, at::tensor({5, 6, 7, 0}, at::kLong)));
  EXPECT_TRUE(at::equal(batches[0].labels, at::tensor({-100, 7, -100, -100}, at::kLong)));
  EXPECT_TRUE(at::equal(batches[0].positions, at::tensor({0, 1, 2, 3}, at::kLong)));
  EXPECT_DOUBLE_EQ(TotalsOf(RowList(rows), std::vector<int64_t>{0}).per_trained(), 1.0);
}

TEST(Batches, DocumentsOfPackedRowsDoNotSeeEachOther) {
  const Row packed{{1, 2, 3, 4, 5}, {1, 2, 3, 4, 5}, {0, 2}};
  EXPECT_EQ(CountTrained({packed}), 3);  // not the first of either document
  const PassInput batch = MakePassInputs({packed}, {.multiple = 8})[0];
  EXPECT_TRUE(at::equal(batch.labels, at::tensor({2, -100, 4, 5, -100, -100, -100, -100}, at::kLong)));
  EXPECT_TRUE(at::equal(batch.positions.narrow(0, 0, 5), at::tensor({0, 1, 0, 1, 2}, at::kLong)));
  EXPECT_EQ(batch.real.sum().item<int64_t>(), 5);
  EXPECT_FALSE(batch.context->plain());
  EXPECT_DOUBLE_EQ(TotalsOf(RowList({packed}), std::vector<int64_t>{0}).per_trained(), 1.0 / 3);
}

// Depth 2 of a document: token and label are shifted by two more; positions past its end do not exist.
TEST(Batches, MultiTokenPredictionStaysInItsDocument) {
  const Row packed{{1, 2, 3, 4, 5, 6}, {1, 2, 3, -100, 5, 6}, {0, 2}};
  const std::vector<PassInput> batches = MakePassInputs({packed}, {.multiple = 8, .mtp_depths = 2});
  ASSERT_EQ(batches[0].mtp.size(), 2u);
  const PassInput &one = batches[0].mtp[0], &two = batches[0].mtp[1];
  EXPECT_TRUE(at::equal(one.tokens, at::tensor({2, 0, 4, 5, 6, 0, 0, 0}, at::kLong)));
  EXPECT_TRUE(at::equal(one.labels, at::tensor({-100, -100, 5, 6, -100, -100, -100, -100}, at::kLong)));
  EXPECT_TRUE(at::equal(two.tokens, at::tensor({0, 0, 5, 6, 0, 0, 0, 0}, at::kLong)));
  EXPECT_TRUE(at::equal(two.labels, at::tensor({-100, -100, 6, -100, -100, -100, -100, -100}, at::kLong)));
  EXPECT_TRUE(at::equal(two.sequence, at::tensor({-1, -1, 1, 1, -1, -1, -1, -1}, at::kLong)));
  EXPECT_TRUE(at::equal(two.positions, batches[0].positions));
  EXPECT_TRUE(at::equal(two.identities, batches[0].identities));
  const at::Tensor counts = CountMtp(batches, {.mtp_depths = 2});
  EXPECT_TRUE(at::equal(counts, at::tensor({2, 4, 1, 2}, at::kInt).view({2, 2})));
  const std::vector<BatchTotals> totals = MtpTotals(counts * 2);
  EXPECT_DOUBLE_EQ(totals[1].per_trained(), 0.5);
  EXPECT_DOUBLE_EQ(totals[0].per_token(), 1.0 / 8);
}

// A weight is at its label's position, and documents know their sample, numbered over all rows of the step.
TEST(Batches, RowsCarryWeightsAndSamples) {
  const Row pair{.input_ids = {1, 2, 3, 4, 5},
                 .labels = {1, 2, -100, 4, 5},
                 .starts = {0, 3},
                 .weights = {9, 0.5F, 9, 9, -2},
                 .samples = {0, 0}};
  const Row single{.input_ids = {6, 7}, .labels = {6, 7}, .weights = {9, 3}};
  const std::vector<PassInput> inputs = MakePassInputs({pair, single}, {.micro_batch = 2, .multiple = 8});
  ASSERT_EQ(inputs.size(), 1u);
  const at::Tensor trained = inputs[0].labels.ne(kNotTrained).nonzero().squeeze(1);
  EXPECT_TRUE(at::equal(trained, at::tensor({0, 3, 8}, at::kLong)));
  EXPECT_TRUE(at::equal(inputs[0].weights.index_select(0, trained), at::tensor({0.5F, -2.0F, 3.0F})));
  ASSERT_EQ(inputs[0].samples.size(), 3u);
  EXPECT_EQ(inputs[0].samples[0], inputs[0].samples[1]);
  EXPECT_NE(inputs[0].samples[0], inputs[0].samples[2]);
  // The same for any micro batch size.
  const std::vector<PassInput> apart = MakePassInputs({pair, single}, {.multiple = 8});
  ASSERT_EQ(apart.size(), 2u);
  EXPECT_EQ(apart[1].samples, std::vector<int64_t>{inputs[0].samples[2]});
}

// Tokens keep their identity under any split, so that dropout drops the same units.
TEST(Batches, IdentitiesAreThoseOfTheStep) {
  const std::vector<Row> rows = {{{1, 2}, {1, 2}}, {{3, 4}, {3, 4}}, {{5, 6}, {5, 6}}, {{7, 8}, {7, 8}}};
  const auto rows_of = [](const std::vector<PassInput>& inputs) {
    std::vector<int64_t> found;
    for (const PassInput& input : inputs) {
      for (int64_t i = 0; i < input.identities.numel(); ++i)
        found.push_back(RowOf(input.identities[i].item<int64_t>()));
    }
    return found;
  };
  EXPECT_EQ(rows_of(MakePassInputs(rows, {.micro_batch = 4})), (std::vector<int64_t>{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(rows_of(MakePassInputs(rows, {})), (std::vector<int64_t>{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(rows_of(MakePassInputs(rows, {.data_rank = 1, .data_size = 2})), (std::vector<int64_t>{1, 1, 3, 3}));
}

// Labels of a row without weights count 1 beside one with them; a depth of multi-token prediction has those of its
// labels.
TEST(Batches, WeightsStayWithTheirLabels) {
  const Row weighted{.input_ids = {1, 2, 3, 4}, .labels = {1, 2, 3, 4}, .weights = {9, 2, 3, 4}};
  const Row plain{.input_ids = {5, 6}, .labels = {5, 6}};
  const PassInput input = MakePassInputs({weighted, plain}, {.micro_batch = 2, .multiple = 4, .mtp_depths = 1})[0];
  const auto of_trained = [](const PassInput& some) {
    return some.weights.index_select(0, some.labels.ne(kNotTrained).nonzero().squeeze(1));
  };
  EXPECT_TRUE(at::equal(of_trained(input), at::tensor({2.0F, 3.0F, 4.0F, 1.0F})));
  EXPECT_TRUE(at::equal(of_trained(input.mtp[0]), at::tensor({3.0F, 4.0F})));
}

// The second document goes on after the tokens that it shares with the first, and attends to them.
TEST(Batches, ASharedPromptStandsInARowOnce) {
  const Row pair{
      .input_ids = {1, 2, 3, 4, 3, 5}, .labels = {-100, -100, -100, 4, -100, 5}, .starts = {0, 4}, .shared = {0, 2}};
  const PassInput input = MakePassInputs({pair}, {})[0];
  EXPECT_TRUE(at::equal(input.positions, at::tensor({0, 1, 2, 3, 2, 3}, at::kLong)));
  EXPECT_TRUE(at::equal(input.sequence, at::tensor({0, 0, 0, 0, 1, 1}, at::kLong)));
  const std::vector<AttentionTile> tiles = {{.query = 0, .queries = 4, .key = 0, .keys = 4, .first = 0},
                                            {.query = 4, .queries = 2, .key = 0, .keys = 2, .first = 2},
                                            {.query = 4, .queries = 2, .key = 4, .keys = 2, .first = 0}};
  EXPECT_EQ(input.context->Tiles(0).at(0), tiles);
}

TEST(Batches, ContextRanksShareEachRow) {
  const Row row{{1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 3, 4, 5, 6, 7, 8}};
  std::vector<at::Tensor> tokens;
  for (int rank : {0, 1}) {
    const PassInput batch = MakePassInputs({row}, {.multiple = 8, .context = {.ring = 2, .rank = rank}})[0];
    EXPECT_EQ(batch.length, 4);
    tokens.push_back(batch.tokens);
    EXPECT_TRUE(at::equal(batch.positions,
                          at::tensor(rank == 0 ? std::vector<int64_t>{0, 1, 6, 7} : std::vector<int64_t>{2, 3, 4, 5})));
  }
  EXPECT_TRUE(at::equal(tokens[0], at::tensor({1, 2, 7, 8}, at::kLong)));
  EXPECT_TRUE(at::equal(tokens[1], at::tensor({3, 4, 5, 6}, at::kLong)));
}

}  // namespace
}  // namespace trireme
