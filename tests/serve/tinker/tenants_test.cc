// Shares and quotas of owners, with a clock of their own.
#include <gtest/gtest.h>

#include <map>

#include "serve/tinker/fair_turns.h"
#include "serve/tinker/quotas.h"

namespace trireme::tinker {
namespace {

// Tokens that each model gets in so many turns, all of them always ready.
std::map<std::string, int64_t> Served(FairTurns& turns, const std::vector<Turn>& ready, int count) {
  std::map<std::string, int64_t> served;
  for (int i = 0; i < count; ++i) {
    const Turn& turn = ready[turns.Choose(ready)];
    served[turn.model] += turn.tokens;
  }
  return served;
}

TEST(FairTurnsTest, OwnersShareByTokensWhateverTheySend) {
  FairTurns turns;
  // One with three models and long requests, one with a single model and short ones.
  const std::vector<Turn> ready = {{"a", "a1", 100}, {"a", "a2", 100}, {"a", "a3", 50}, {"b", "b1", 10}};
  std::map<std::string, int64_t> served = Served(turns, ready, 3000);
  const int64_t a = served["a1"] + served["a2"] + served["a3"];
  EXPECT_NEAR(static_cast<double>(a), static_cast<double>(served["b1"]), 100);
  EXPECT_NEAR(static_cast<double>(served["a1"]), static_cast<double>(served["a3"]), 100);
  EXPECT_NEAR(static_cast<double>(served["a1"]), static_cast<double>(served["a2"]), 100);
}

TEST(FairTurnsTest, WhoWasIdleHasNothingSavedUp) {
  FairTurns turns;
  Served(turns, {{"a", "a1", 10}}, 1000);
  std::map<std::string, int64_t> served = Served(turns, {{"a", "a1", 10}, {"b", "b1", 10}}, 20);
  EXPECT_EQ(served["a1"], 100);
  EXPECT_EQ(served["b1"], 100);
}

TEST(FairTurnsTest, WorkWithoutTokensTakesTurns) {
  FairTurns turns;
  std::map<std::string, int> times;
  const std::vector<Turn> ready = {{"a", "a1", 0}, {"b", "b1", 0}};
  for (int i = 0; i < 10; ++i) ++times[ready[turns.Choose(ready)].model];
  EXPECT_EQ(times["a1"], 5);
}

TEST(QuotasTest, TokensComeBackInTime) {
  Quotas quotas({.tokens_per_second = 10});
  EXPECT_EQ(quotas.SecondsToWait("a", 0), 0);
  quotas.Charge("a", 99, 0);  // of a hundred at once
  EXPECT_EQ(quotas.SecondsToWait("a", 0), 0);
  quotas.Charge("a", 51, 0);
  EXPECT_DOUBLE_EQ(quotas.SecondsToWait("a", 0), 5);
  EXPECT_DOUBLE_EQ(quotas.SecondsToWait("a", 3), 2);
  EXPECT_EQ(quotas.SecondsToWait("a", 5.2), 0);
  EXPECT_EQ(quotas.SecondsToWait("b", 0), 0);
  quotas.Charge("a", 1000, 1000);  // never more than a burst was saved
  EXPECT_DOUBLE_EQ(quotas.SecondsToWait("a", 1000), 90);
}

TEST(QuotasTest, WithoutALimitNobodyWaits) {
  Quotas quotas;
  quotas.Charge("a", 1 << 30, 0);
  EXPECT_EQ(quotas.SecondsToWait("a", 0), 0);
}

}  // namespace
}  // namespace trireme::tinker
