// Counter-based random numbers: reproducible, different between streams, and correctly distributed.
#include "core/base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numbers>
#include <set>
#include <vector>

namespace trireme {
namespace {

TEST(RandomStream, TheSameIndexGivesTheSameNumber) {
  const RandomStream a(1, "x"), b(1, "x");
  for (uint64_t i : {0ULL, 1ULL, 1ULL << 40}) EXPECT_EQ(a.Bits(i), b.Bits(i));
}

TEST(RandomStream, SeedsNamesAndIndicesAllMatter) {
  std::set<uint64_t> seen;
  for (uint64_t seed : {0, 1, 2}) {
    for (const char* name : {"", "a", "b", "ab", "ba"}) {
      for (uint64_t i = 0; i < 1000; ++i) seen.insert(RandomStream(seed, name).Bits(i));
    }
  }
  EXPECT_EQ(seen.size(), 15000U);
}

TEST(RandomStream, NormalHasItsMoments) {
  const RandomStream random(7, "moments");
  constexpr int kCount = 200000;
  double sum = 0, squares = 0, fourth = 0, neighbours = 0, before = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = random.Normal(i);
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
    neighbours += x * before;
    before = x;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.01);
  EXPECT_NEAR(squares / kCount, 1, 0.02);
  EXPECT_NEAR(fourth / kCount, 3, 0.15);
  EXPECT_NEAR(neighbours / kCount, 0, 0.01);
}

// Moments do not show a uniform number that two neighbours share.
TEST(RandomStream, EachNormalHasTwoUniformsOfItsOwn) {
  const RandomStream random(7, "pairs");
  for (uint64_t i = 0; i < 100; ++i) {
    const double radius = std::sqrt(-2 * std::log(1 - random.Uniform(2 * i)));
    EXPECT_DOUBLE_EQ(random.Normal(i), radius * std::cos(2 * std::numbers::pi * random.Uniform(2 * i + 1))) << i;
  }
}

TEST(RandomStream, BranchesAreIndependentStreams) {
  const RandomStream random(7, "branch");
  EXPECT_EQ(random.Branch(3).Bits(5), random.Branch(3).Bits(5));
  EXPECT_NE(random.Branch(3).Bits(5), random.Branch(5).Bits(3));
  double sum = 0;  // of the same index in neighbouring branches
  for (uint64_t i = 0; i < 10000; ++i) sum += random.Branch(i).Uniform(0);
  EXPECT_NEAR(sum / 10000, 0.5, 0.02);
}

TEST(RandomStream, BelowReachesEveryValueEvenly) {
  const RandomStream random(7, "below");
  int counts[6] = {};
  for (uint64_t i = 0; i < 60000; ++i) {
    const uint64_t value = random.Below(6, i);
    ASSERT_LT(value, 6U);
    ++counts[value];
  }
  for (int count : counts) EXPECT_NEAR(count, 10000, 400);
}

TEST(RandomStream, AShuffledOrderHasEachNumberOnceAndEveryOrderAlike) {
  EXPECT_TRUE(ShuffledOrder(0, {7, "none"}).empty());
  std::map<std::vector<int64_t>, int> counts;
  for (uint64_t i = 0; i < 6000; ++i) ++counts[ShuffledOrder(3, RandomStream(7, "orders").Branch(i))];
  EXPECT_EQ(counts.size(), 6U);
  for (const auto& [order, count] : counts) {
    EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()), (std::set<int64_t>{0, 1, 2}));
    EXPECT_NEAR(count, 1000, 150);
  }
}

}  // namespace
}  // namespace trireme
