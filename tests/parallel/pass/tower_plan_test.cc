// The order of a tower's patches, its segments and its table, from the rules alone: every patch once, windows and
// frames contiguous, and what each token of an image is made of.
#include "parallel/pass/tower_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace trireme {
namespace {

constexpr TowerSpec kWindowed{.hidden = 8, .head_dim = 4, .merge = 2, .window = 2};
constexpr TowerSpec kWithTable{.hidden = 8, .head_dim = 4, .merge = 2, .table_side = 6};

std::vector<int64_t> Counted(size_t count) {
  std::vector<int64_t> all(count);
  std::iota(all.begin(), all.end(), int64_t{0});
  return all;
}

// Where a patch of the input is: blocks in rows, and rows in a block.
std::pair<int64_t, int64_t> PlaceOf(int64_t patch, const ImageGrid& grid) {
  const int64_t block = patch / 4, columns = grid.width / 2;
  return {block / columns * 2 + patch % 4 / 2, block % columns * 2 + patch % 2};
}

TEST(TowerPlan, HasEveryPatchOnceAtItsPlace) {
  const ImageGrid grid{1, 6, 10};
  const TowerPlan plan = PlanTower(kWindowed, std::vector{grid});
  std::vector<int64_t> sorted = plan.order;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, Counted(60));
  for (size_t i = 0; i < plan.order.size(); ++i) {
    EXPECT_EQ(std::pair(plan.rows[i], plan.columns[i]), PlaceOf(plan.order[i], grid)) << i;
  }
}

TEST(TowerPlan, TokensReturnToTheirPlaces) {
  const TowerPlan plan = PlanTower(kWindowed, std::vector<ImageGrid>{{1, 6, 10}, {1, 2, 2}, {1, 4, 6}});
  ASSERT_EQ(plan.token_order.size() * 4, plan.order.size());
  for (size_t token = 0; token < plan.token_order.size(); ++token) {
    const auto first = static_cast<size_t>(4 * plan.token_order[token]);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(plan.order[first + i], static_cast<int64_t>(4 * token + i));
  }
}

// 3 x 5 tokens in windows of 2 x 2: those at the right and at the bottom are smaller.
TEST(TowerPlan, WindowsAreContiguousAndMaySmallen) {
  const TowerPlan plan = PlanTower(kWindowed, std::vector<ImageGrid>{{1, 6, 10}});
  std::vector<int64_t> sizes;
  int64_t next = 0;
  for (const AttentionTile& tile : plan.windows.front()) {
    EXPECT_EQ(tile.query, next);
    EXPECT_EQ(tile.key, next);
    EXPECT_EQ(tile.first, tile.keys - 1);  // the first query sees the last key
    sizes.push_back(tile.queries);
    next += tile.queries;
    const auto [low, high] = std::minmax_element(plan.rows.begin() + tile.query, plan.rows.begin() + next);
    EXPECT_LT(*high - *low, 4);
  }
  EXPECT_EQ(sizes, (std::vector<int64_t>{16, 16, 8, 8, 8, 4}));
  ASSERT_EQ(plan.frames.front().size(), 1u);
  EXPECT_EQ(plan.frames.front().front().queries, 60);
}

TEST(TowerPlan, ImagesDoNotAttendToEachOther) {
  const TowerPlan plan = PlanTower(kWithTable, std::vector<ImageGrid>{{1, 2, 4}, {1, 4, 4}});
  std::vector<int64_t> sizes;
  for (const AttentionTile& tile : plan.frames.front()) sizes.push_back(tile.queries);
  EXPECT_EQ(sizes, (std::vector<int64_t>{8, 16}));
  EXPECT_EQ(plan.order, Counted(24));
}

TEST(TowerPlan, InterpolatesTheTableWithItsCornersAligned) {
  const TowerPlan plan = PlanTower(kWithTable, std::vector<ImageGrid>{{1, 4, 2}});
  for (size_t i = 0; i < plan.order.size(); ++i) {
    float sum = 0, row = 0, column = 0;
    for (size_t k = 0; k < 4; ++k) {
      EXPECT_GE(plan.corners[i][k], 0);
      EXPECT_LT(plan.corners[i][k], 36);
      sum += plan.shares[i][k];
      row += plan.shares[i][k] * static_cast<float>(plan.corners[i][k] / 6);
      column += plan.shares[i][k] * static_cast<float>(plan.corners[i][k] % 6);
    }
    EXPECT_FLOAT_EQ(sum, 1);
    EXPECT_NEAR(row, static_cast<float>(plan.rows[i]) * 5 / 3, 1e-5);
    EXPECT_NEAR(column, static_cast<float>(plan.columns[i]) * 5, 1e-5);
  }
}

// Two tiles of an image and one of another: each with a class token before its patches.
TEST(TowerPlan, TilesHaveClassTokens) {
  const TowerPlan plan =
      PlanTower({.hidden = 8, .head_dim = 4, .merge = 2, .tile = 4}, std::vector<ImageGrid>{{2, 4, 4}, {1, 4, 4}});
  EXPECT_EQ(plan.patches(), 48);
  EXPECT_EQ(plan.states, 51);
  ASSERT_EQ(plan.frames.front().size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const AttentionTile& tile = plan.frames.front()[i];
    EXPECT_EQ(tile.query, static_cast<int64_t>(17 * i));
    EXPECT_EQ(tile.keys, 17);
    EXPECT_EQ(tile.first, 16);
  }
}

TEST(TowerPlan, NoImageIsAPlan) {
  const TowerPlan plan = PlanTower(kWindowed, {});
  EXPECT_EQ(plan.patches(), 0);
  EXPECT_TRUE(plan.frames.front().empty());
}

}  // namespace
}  // namespace trireme
