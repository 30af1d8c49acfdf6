// The offset allocator against a plain model, over thousands of random allocations and frees.
#include "twin/acl/runtime/offset_allocator.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace twin {
namespace {

constexpr size_t kArena = 1 << 20;

TEST(OffsetAllocator, CoalescesNeighboursIntoOneRange) {
  OffsetAllocator allocator(kArena);
  std::vector<size_t> offsets;
  for (int i = 0; i < 100; ++i) offsets.push_back(*allocator.Allocate(1000, 64));
  for (size_t i = 0; i < offsets.size(); i += 2) ASSERT_TRUE(allocator.Free(offsets[i]));
  for (size_t i = 1; i < offsets.size(); i += 2) ASSERT_TRUE(allocator.Free(offsets[i]));
  EXPECT_EQ(allocator.free_ranges(), 1u);
  EXPECT_EQ(allocator.Allocate(kArena, 64), size_t{0});
}

TEST(OffsetAllocator, TakesTheShortestRangeThatFits) {
  OffsetAllocator allocator(kArena);
  const size_t large = *allocator.Allocate(4096, 64);
  ASSERT_TRUE(allocator.Allocate(64, 64));
  const size_t small = *allocator.Allocate(1024, 64);
  ASSERT_TRUE(allocator.Allocate(64, 64));
  ASSERT_TRUE(allocator.Free(large));
  ASSERT_TRUE(allocator.Free(small));
  EXPECT_EQ(allocator.Allocate(1000, 64), small);
}

TEST(OffsetAllocator, RefusesForeignOffsetsAndSecondFrees) {
  OffsetAllocator allocator(kArena);
  const size_t offset = *allocator.Allocate(256, 64);
  EXPECT_FALSE(allocator.Free(offset + 64));
  EXPECT_TRUE(allocator.Free(offset));
  EXPECT_FALSE(allocator.Free(offset));
  EXPECT_FALSE(allocator.Allocate(0, 64));
  EXPECT_FALSE(allocator.Allocate(kArena + 1, 64));
}

TEST(OffsetAllocator, FindsTheRangeThatHoldsAnOffset) {
  OffsetAllocator allocator(kArena);
  const size_t offset = *allocator.Allocate(130, 64);
  EXPECT_EQ(allocator.Find(offset + 129)->begin, offset);
  EXPECT_FALSE(allocator.Find(offset + 192));
}

// The model is one flag per granule.
class Model {
 public:
  bool Take(size_t begin, size_t end) {
    for (size_t i = begin / 64; i < end / 64; ++i) {
      if (used_[i]) return false;
      used_[i] = true;
    }
    return end <= kArena;
  }
  void Give(size_t begin, size_t end) {
    for (size_t i = begin / 64; i < end / 64; ++i) used_[i] = false;
  }
  size_t LongestFree() const {
    size_t longest = 0;
    size_t run = 0;
    for (const bool used : used_) longest = std::max(longest, run = used ? 0 : run + 64);
    return longest;
  }

 private:
  std::vector<bool> used_ = std::vector<bool>(kArena / 64);
};

TEST(OffsetAllocator, AgreesWithAModelOverRandomUse) {
  OffsetAllocator allocator(kArena);
  Model model;
  std::map<size_t, size_t> living;  // begin -> end
  std::mt19937 random(7);
  for (int step = 0; step < 20000; ++step) {
    if (living.empty() || random() % 100 < 55) {
      const size_t bytes = 1 + random() % (random() % 10 == 0 ? 60000 : 2000);
      const size_t alignment = random() % 8 == 0 ? 4096 : 64;
      const std::optional<size_t> offset = allocator.Allocate(bytes, alignment);
      if (!offset) {
        ASSERT_LT(model.LongestFree(), bytes + alignment) << "step " << step;
        continue;
      }
      ASSERT_EQ(*offset % alignment, 0u);
      const size_t end = (*offset + bytes + 63) / 64 * 64;
      ASSERT_TRUE(model.Take(*offset, end)) << "overlap at step " << step;
      living[*offset] = end;
    } else {
      const auto chosen = std::next(living.begin(), random() % living.size());
      ASSERT_TRUE(allocator.Free(chosen->first));
      model.Give(chosen->first, chosen->second);
      living.erase(chosen);
    }
    ASSERT_EQ(allocator.live_ranges(), living.size());
  }
  for (const auto& [begin, end] : living) ASSERT_TRUE(allocator.Free(begin));
  EXPECT_EQ(allocator.free_ranges(), 1u);
}

}  // namespace
}  // namespace twin
