// Views over rows: every row where it belongs, none lost, the same on every call.
#include "data/row_views.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "core/base/error.h"
#include "core/base/random.h"

namespace trireme {
namespace {

// Row i has the id `first` + i everywhere.
Rows RowsOfLengths(const std::vector<int64_t>& lengths, int64_t first = 0) {
  std::vector<Row> rows;
  for (const int64_t length : lengths) {
    const std::vector<int64_t> ids(length, first++);
    rows.push_back({ids, ids});
  }
  return std::make_shared<RowList>(std::move(rows));
}

Rows Ones(int64_t count, int64_t first) { return RowsOfLengths(std::vector<int64_t>(count, 2), first); }

std::vector<int64_t> FirstIds(const RowSource& rows) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < rows.size(); ++i) ids.push_back(rows.Read(i).input_ids[0]);
  return ids;
}

TEST(RowViews, JoinsInOrder) {
  const Rows joined = JoinRows({Ones(2, 0), Ones(1, 10), Ones(3, 20)});
  EXPECT_EQ(FirstIds(*joined), (std::vector<int64_t>{0, 1, 10, 20, 21, 22}));
  EXPECT_EQ(joined->Length(5), 2);
  EXPECT_EQ(joined->Trained(5), 1);
}

TEST(RowViews, BlendsAsMegatronDoes) {
  // Megatron's build_blending_indices with weights .5, .3, .2 gives the datasets 0 1 2 0 1 0 2 0 1 0.
  const Rows blend = BlendRows({Ones(5, 0), Ones(3, 10), Ones(2, 20)}, {5, 3, 2});
  EXPECT_EQ(FirstIds(*blend), (std::vector<int64_t>{0, 10, 20, 1, 11, 2, 21, 3, 12, 4}));
  const Rows small = BlendRows({Ones(1, 0), Ones(3, 10)}, {3, 1});  // the first starts over
  EXPECT_EQ(FirstIds(*small), (std::vector<int64_t>{0, 10, 0, 0}));
}

TEST(RowViews, SamplesWithoutReplacementUntilAllAreUsed) {
  const Rows some = SampleRows(Ones(100, 0), 30, 7, "a");
  const std::vector<int64_t> ids = FirstIds(*some);
  EXPECT_EQ(std::set<int64_t>(ids.begin(), ids.end()).size(), 30u);
  EXPECT_EQ(ids, FirstIds(*SampleRows(Ones(100, 0), 30, 7, "a")));
  EXPECT_NE(ids, FirstIds(*SampleRows(Ones(100, 0), 30, 8, "a")));
  std::map<int64_t, int> times;
  for (const int64_t id : FirstIds(*SampleRows(Ones(10, 0), 25, 7, "a"))) ++times[id];
  EXPECT_EQ(times.size(), 10u);
  for (const auto& [id, count] : times) EXPECT_TRUE(count == 2 || count == 3) << id;
}

// The first label of a piece is not predicted, since nothing precedes it. A piece with no other trained label
// is left out, even if the label was predicted in the whole row.
TEST(RowViews, APieceWhoseOnlyTrainedLabelIsItsFirstIsLeftOut) {
  constexpr int64_t kOff = kNotTrained;
  const Rows rows = std::make_shared<RowList>(
      std::vector<Row>{{{1, 2, 3, 4, 5, 6, 7, 8, 9}, {kOff, 2, kOff, 4, kOff, kOff, kOff, 8, kOff}}});
  const Rows cut = LimitLength(rows, 3, OverLength::kSplit);
  ASSERT_EQ(cut->size(), 2);
  EXPECT_EQ(cut->Read(0).input_ids, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(cut->Read(1).input_ids, (std::vector<int64_t>{7, 8, 9}));
  for (int64_t i = 0; i < cut->size(); ++i) EXPECT_EQ(cut->Trained(i), 1);
}

TEST(RowViews, SplitsOffEachRowOnce) {
  const SplitRows split = SetAside(Ones(50, 0), 0.1, 7);
  EXPECT_EQ(split.valid->size(), 5);
  std::vector<int64_t> all = FirstIds(*split.train);
  const std::vector<int64_t> valid = FirstIds(*split.valid);
  all.insert(all.end(), valid.begin(), valid.end());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, FirstIds(*Ones(50, 0)));
  EXPECT_EQ(SetAside(Ones(50, 0), 0, 7).valid, nullptr);
  EXPECT_EQ(SetAside(Ones(3, 0), 0.01, 7).valid->size(), 1);
  EXPECT_THROW(SetAside(Ones(1, 0), 0.5, 7), Error);
}

TEST(RowViews, LimitsLengthByPolicy) {
  const Rows rows = RowsOfLengths({3, 10, 4, 1, 8});
  const auto lengths = [](const Rows& view) {
    std::vector<int64_t> all;
    for (int64_t i = 0; i < view->size(); ++i) all.push_back(view->Length(i));
    return all;
  };
  EXPECT_EQ(lengths(LimitLength(rows, 4, OverLength::kDrop)), (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(lengths(LimitLength(rows, 4, OverLength::kTruncate)), (std::vector<int64_t>{3, 4, 4, 4}));
  const Rows split = LimitLength(rows, 4, OverLength::kSplit);
  EXPECT_EQ(lengths(split), (std::vector<int64_t>{3, 4, 4, 2, 4, 4, 4}));
  for (int64_t i = 0; i < split->size(); ++i) EXPECT_EQ(split->Trained(i), CountTrained(split->Read(i)));
}

TEST(RowViews, LeavesOutRowsWithoutTrainedTokens) {
  const auto rows = std::make_shared<RowList>(
      std::vector<Row>{{{1, 2}, {1, -100}}, {{3, 4}, {-100, 4}}, {{5, 6, 7, 8}, {-100, -100, -100, 8}}});
  EXPECT_EQ(FirstIds(*LimitLength(rows, 4, OverLength::kDrop)), (std::vector<int64_t>{3, 5}));
  EXPECT_EQ(FirstIds(*LimitLength(rows, 2, OverLength::kTruncate)), (std::vector<int64_t>{3}));
  EXPECT_EQ(FirstIds(*LimitLength(rows, 2, OverLength::kSplit)), (std::vector<int64_t>{3, 7}));
}

TEST(RowViews, WeightsFollowTheirLabels) {
  const Rows rows = std::make_shared<RowList>(
      std::vector<Row>{{.input_ids = {1, 2, 3}, .labels = {1, 2, 3}},
                       {.input_ids = {4, 5, 6, 7, 8}, .labels = {4, 5, 6, 7, 8}, .weights = {9, 2, 3, 4, 0.5F}},
                       {.input_ids = {9, 10}, .labels = {9, 10}}});
  const Rows cut = LimitLength(rows, 3, OverLength::kSplit);
  ASSERT_EQ(cut->size(), 4);
  EXPECT_TRUE(cut->Read(0).weights.empty());
  EXPECT_EQ(cut->Read(1).weights, (std::vector<float>{9, 2, 3}));
  EXPECT_EQ(cut->Read(2).weights, (std::vector<float>{4, 0.5F}));
  const Row packed = PackRows(rows, 10)->Read(0);  // a row without weights before and after the one with them
  EXPECT_EQ(packed.input_ids, (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(packed.weights, (std::vector<float>{1, 1, 1, 9, 2, 3, 4, 0.5F, 1, 1}));
}

TEST(Packing, FillsPacksToTheLastToken) {
  const Rows packed = PackRows(RowsOfLengths({60, 88, 40, 68, 128}), 128);
  ASSERT_EQ(packed->size(), 3);
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(packed->Length(i), 128) << i;
}

TEST(Packing, KeepsEveryRowWholeAndFillsWell) {
  const RandomStream random(3, "lengths");
  std::vector<int64_t> lengths;
  for (int i = 0; i < 3000; ++i) lengths.push_back(2 + static_cast<int64_t>(random.Below(120, i)));
  const Rows rows = RowsOfLengths(lengths);
  const Rows packed = PackRows(rows, 128);
  std::vector<int64_t> seen;
  for (int64_t i = 0; i < packed->size(); ++i) {
    const Row row = packed->Read(i);
    EXPECT_LE(row.input_ids.size(), 128u);
    EXPECT_EQ(packed->Length(i), static_cast<int64_t>(row.input_ids.size()));
    EXPECT_EQ(packed->Trained(i), CountTrained(row));
    ASSERT_EQ(row.starts[0], 0);
    for (size_t j = 0; j < row.starts.size(); ++j) {
      const int64_t end = j + 1 < row.starts.size() ? row.starts[j + 1] : packed->Length(i);
      const int64_t id = row.input_ids[row.starts[j]];
      seen.push_back(id);
      EXPECT_EQ(end - row.starts[j], lengths[id]);
      EXPECT_EQ(row.labels[row.starts[j]], kNotTrained);
      EXPECT_TRUE(std::all_of(row.input_ids.begin() + row.starts[j], row.input_ids.begin() + end,
                              [&](int64_t x) { return x == id; }));
    }
  }
  std::sort(seen.begin(), seen.end());
  std::vector<int64_t> all(3000);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(seen, all);
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const RowExtent extent = packed->Extent(0);  // what attention costs
  EXPECT_EQ(extent.documents.size(), packed->Read(0).starts.size());
  EXPECT_EQ(std::accumulate(extent.documents.begin(), extent.documents.end(), int64_t{0}), packed->Length(0));
  EXPECT_LE(packed->size(), tokens / 128 * 103 / 100 + 1);  // best fit fills these to more than 97 %
}

}  // namespace
}  // namespace trireme
