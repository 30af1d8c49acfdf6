// Who uses a block, and under which prefix it is found.
#include "generation/block_pool.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

using Tokens = std::vector<int64_t>;

TEST(BlockPool, GivesEachBlockOnce) {
  BlockPool pool(3);
  EXPECT_EQ(pool.Take(), 0);
  EXPECT_EQ(pool.Take(), 1);
  EXPECT_EQ(pool.Take(), 2);
  EXPECT_EQ(pool.Take(), std::nullopt);
  EXPECT_EQ(pool.available(), 0);
  pool.Release(1);
  EXPECT_EQ(pool.available(), 1);
  EXPECT_EQ(pool.Take(), 1);
  pool.Grow(1);
  EXPECT_EQ(pool.Take(), 3);
}

TEST(BlockPool, FindsAPrefixBlockByBlock) {
  BlockPool pool(4);
  const auto root = pool.Root("");
  const int32_t first = *pool.Take(), second = *pool.Take();
  const auto one = pool.Publish(first, root, Tokens{1, 2});
  const auto two = pool.Publish(second, one, Tokens{3, 4});
  ASSERT_TRUE(pool.Find(root, Tokens{1, 2}));
  EXPECT_EQ(pool.Find(root, Tokens{1, 2})->block, first);
  EXPECT_EQ(pool.Find(one, Tokens{3, 4})->block, second);
  EXPECT_EQ(pool.Find(one, Tokens{3, 4})->prefix, two);
  EXPECT_FALSE(pool.Find(root, Tokens{3, 4})) << "the same tokens after another prefix";
  EXPECT_FALSE(pool.Find(one, Tokens{3, 5}));
  EXPECT_FALSE(pool.Find(pool.Root("tenant"), Tokens{1, 2})) << "another salt";
}

TEST(BlockPool, ASecondBlockOfTheSamePrefixIsNotFound) {
  BlockPool pool(2);
  const auto root = pool.Root("");
  const int32_t first = *pool.Take(), second = *pool.Take();
  const auto prefix = pool.Publish(first, root, Tokens{1});
  EXPECT_EQ(pool.Publish(second, root, Tokens{1}), prefix);
  EXPECT_EQ(pool.Find(root, Tokens{1})->block, first);
  pool.Release(second);
  EXPECT_EQ(pool.Take(), second);
}

TEST(BlockPool, UnusedBlocksKeepTheirPrefixUntilTheyAreNeeded) {
  BlockPool pool(3);
  const auto root = pool.Root("");
  const int32_t a = *pool.Take(), b = *pool.Take();
  pool.Publish(a, root, Tokens{1});
  pool.Publish(b, root, Tokens{2});
  pool.Release(b);
  pool.Release(a);
  EXPECT_EQ(pool.available(), 3);
  EXPECT_EQ(pool.Take(), 2) << "one that holds nothing";
  EXPECT_EQ(pool.Take(), b) << "the longest unused";
  EXPECT_FALSE(pool.Find(root, Tokens{2}));
  ASSERT_TRUE(pool.Find(root, Tokens{1}));
  pool.Share(a);
  EXPECT_EQ(pool.users(a), 1);
  EXPECT_EQ(pool.Take(), std::nullopt) << "a shared block is in use";
}

TEST(BlockPool, SaltsThatHoldNoBlocksAreForgotten) {
  BlockPool pool(2);
  const int32_t block = *pool.Take();
  pool.Publish(block, pool.Root("kept"), Tokens{1});
  pool.Release(block);
  for (int i = 0; i < 100000; ++i) pool.Root("salt " + std::to_string(i));
  EXPECT_LT(pool.roots(), 2000) << "callers choose salts";
  EXPECT_TRUE(pool.Find(pool.Root("kept"), Tokens{1}));
}

TEST(BlockPool, ForgetsEverything) {
  BlockPool pool(2);
  const int32_t block = *pool.Take();
  pool.Publish(block, pool.Root(""), Tokens{1});
  pool.Release(block);
  pool.Forget();
  EXPECT_FALSE(pool.Find(pool.Root(""), Tokens{1}));
  EXPECT_TRUE(pool.Take() && pool.Take());
}

}  // namespace
}  // namespace trireme
