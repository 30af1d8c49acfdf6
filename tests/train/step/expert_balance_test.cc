// The report on expert balance, from the combined counts of two ranks.
#include "train/step/expert_balance.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trireme {
namespace {

// The rows per layer that a rank's experts received, as the trainer writes them.
void Receive(ExpertBalance& balance, int rank, float rows) {
  std::vector<float> numbers = balance.flat();
  numbers[static_cast<size_t>(balance.offset_of_rank(rank))] = rows + 1;
  balance.SetFlat(numbers);
}

// Two layers on each of two ranks; a third rank has no experts.
ExpertBalance Example() {
  const std::vector<ExpertLayer> layers = {{"layers.1", 2}, {"layers.2", 4}};
  ExpertBalance first(layers, 3), second(layers, 3);
  first.Add("layers.1", {.rows = {3, 1}, .tokens = 4, .dropped = 0, .entropy = 2, .balance_loss = 0.5});
  first.Add("layers.2", {.rows = {4, 0, 0, 2}, .tokens = 4, .dropped = 2, .entropy = 1, .z_loss = 0.25});
  Receive(first, 0, 9);
  second.Add("layers.1", {.rows = {1, 1}, .tokens = 2, .dropped = 0, .entropy = 1});
  Receive(second, 2, 3);
  first.Join(second);
  return first;
}

TEST(ExpertBalance, CountsAreAddedUp) {
  const ExpertBalance balance = Example();
  EXPECT_EQ(balance.RowsOf("layers.1"), (std::vector<float>{4, 2}));
  EXPECT_EQ(balance.RowsOf("layers.2"), (std::vector<float>{4, 0, 0, 2}));
  EXPECT_DOUBLE_EQ(balance.drop_rate(), 2.0 / 14);
  EXPECT_DOUBLE_EQ(balance.entropy(), 4.0 / 10);
  EXPECT_DOUBLE_EQ(balance.balance_loss(), 0.5);
  EXPECT_DOUBLE_EQ(balance.z_loss(), 0.25);
}

TEST(ExpertBalance, TheBusiestAndTheIdlestRankAreNamed) {
  const Json said = Example().ToJson();
  EXPECT_EQ(said["busiest_rank"], 0);
  EXPECT_DOUBLE_EQ(said["busiest_load"], 1.5);
  EXPECT_EQ(said["idlest_rank"], 2);  // rank 1 has no experts
  EXPECT_DOUBLE_EQ(said["idlest_load"], 0.5);
  EXPECT_EQ(said["tokens_per_expert"]["layers.2"], (std::vector<int64_t>{4, 0, 0, 2}));
}

TEST(ExpertBalance, AHeatMapHasACellPerExpert) {
  const std::string drawing = Example().HeatMap();
  EXPECT_NE(drawing.find("layers.2, expert 3: 2 tokens"), std::string::npos);
  EXPECT_NE(drawing.find("layers.1, expert 1: 2 tokens"), std::string::npos);
  size_t cells = 0;
  for (size_t at = drawing.find("<title>"); at != std::string::npos; at = drawing.find("<title>", at + 1)) ++cells;
  EXPECT_EQ(cells, 6U);
  EXPECT_TRUE(ExpertBalance().empty());
}

}  // namespace
}  // namespace trireme
