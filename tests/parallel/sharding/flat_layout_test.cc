// Flat layouts and pieces, by their rules: aligned starts, equal shards that cover everything once, and
// pieces that name exactly the elements of a box.
#include "parallel/sharding/flat_layout.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "parallel/sharding/pieces.h"
#include "tests/core/plan/elements.h"

namespace trireme {
namespace {

TEST(FlatLayout, ParametersBeginAlignedAndDoNotOverlap) {
  const FlatLayout layout({1, 16, 17, 5, 160}, 3);
  int64_t end = 0;
  const std::vector<int64_t> sizes = {1, 16, 17, 5, 160};
  for (size_t i = 0; i < sizes.size(); ++i) {
    const FlatRange range = layout.RangeOf(i);
    EXPECT_EQ(range.begin % 16, 0);
    EXPECT_EQ(range.size(), sizes[i]);
    EXPECT_GE(range.begin, end);
    EXPECT_LT(range.begin, end + 16);
    end = range.end;
  }
  EXPECT_GE(layout.total(), end);
  EXPECT_LT(layout.total(), end + 3 * 16);
  EXPECT_EQ(layout.total() % (3 * 16), 0);
}

TEST(FlatLayout, ShardsAreEqualAndHoldEachElementOnce) {
  const std::vector<int64_t> sizes = {3, 100, 16, 1, 47};
  for (int shards : {1, 2, 3, 4, 7}) {
    const FlatLayout layout(sizes, shards);
    std::vector<std::set<int64_t>> seen(sizes.size());
    int64_t end = 0;
    for (int index = 0; index < shards; ++index) {
      const FlatRange shard = layout.ShardAt(index);
      EXPECT_EQ(shard.begin, end);
      EXPECT_EQ(shard.size() * shards, layout.total());
      EXPECT_EQ(shard.begin % 16, 0);
      end = shard.end;
      for (const FlatPart& part : layout.PartsIn(shard)) {
        EXPECT_GT(part.elements.size(), 0);
        for (int64_t i = 0; i < part.elements.size(); ++i) {
          EXPECT_TRUE(seen[part.parameter].insert(part.elements.begin + i).second);
          EXPECT_EQ(shard.begin + part.offset + i, layout.RangeOf(part.parameter).begin + part.elements.begin + i);
        }
      }
    }
    EXPECT_EQ(end, layout.total());
    for (size_t i = 0; i < sizes.size(); ++i) EXPECT_EQ(static_cast<int64_t>(seen[i].size()), sizes[i]);
  }
}

TEST(FlatLayout, AParameterStartsAtTheSameOffsetForAnyNumberOfShards) {
  const std::vector<int64_t> sizes = {3, 100, 16};
  for (size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(FlatLayout(sizes, 1).RangeOf(i), FlatLayout(sizes, 5).RangeOf(i));
  }
}

// Offsets of all elements of the pieces, with how often each occurs.
std::map<int64_t, int> OffsetsOf(const std::vector<Piece>& pieces) {
  std::map<int64_t, int> offsets;
  for (const Piece& piece : pieces) {
    ForEachElement({Shape(piece.extent.size(), 0), piece.extent}, [&](const Shape& index) {
      int64_t offset = piece.offset;
      for (size_t dim = 0; dim < index.size(); ++dim) offset += index[dim] * piece.strides[dim];
      ++offsets[offset];
    });
  }
  return offsets;
}

bool Holds(const Box& box, const Shape& index) {
  for (size_t dim = 0; dim < index.size(); ++dim) {
    if (index[dim] < box.offset[dim] || index[dim] >= box.offset[dim] + box.extent[dim]) return false;
  }
  return true;
}

TEST(Pieces, InABoxAreThoseOfTheShardInIt) {
  const Shape shape = {4, 3, 5};
  const std::vector<Box> boxes = {{{0, 0, 0}, {4, 3, 5}}, {{1, 0, 0}, {2, 3, 5}}, {{0, 1, 2}, {4, 2, 2}}};
  for (const Box& box : boxes) {
    for (int64_t begin = 0; begin < 60; begin += 7) {
      for (int64_t end = begin + 1; end <= 60; end += 9) {
        const FlatPart part = {0, {begin, end}, 100};
        std::map<int64_t, int> wanted;
        int64_t flat = 0;
        ForEachElement({{0, 0, 0}, shape}, [&](const Shape& index) {
          if (flat >= begin && flat < end && Holds(box, index)) wanted[100 + flat - begin] = 1;
          ++flat;
        });
        const std::vector<Piece> pieces = PiecesInBox(shape, part, box);
        EXPECT_EQ(OffsetsOf(pieces), wanted) << ToText(box) << " " << begin << " " << end;
        EXPECT_EQ(OffsetsOf(MergeRuns(pieces)), wanted) << ToText(box) << " " << begin << " " << end;
      }
    }
  }
}

TEST(Pieces, MergedAreOneIfContiguousAndNeverSpanAGap) {
  const std::vector<Piece> pieces = {{0, {2, 5}, {5, 1}},  {10, {6}, {1}}, {18, {4}, {1}},
                                     {32, {2, 2}, {4, 1}}, {40, {}, {}},   {41, {3, 1}, {1, 7}}};
  const std::vector<Piece> merged = MergeRuns(pieces);
  EXPECT_EQ(OffsetsOf(merged), OffsetsOf(pieces));
  EXPECT_EQ(merged, (std::vector<Piece>{{0, {16}, {1}}, {18, {4}, {1}}, {32, {2, 2}, {4, 1}}, {40, {4}, {1}}}));
}

// Three experts with two rows of gate and one of up, four wide: the gates and the ups are strided.
TEST(Pieces, ThatFillMemoryTogetherAreJoined) {
  const Piece gates{20, {3, 2, 4}, {12, 4, 1}}, ups{28, {3, 1, 4}, {12, 4, 1}};
  EXPECT_EQ(JoinIfDense({gates, ups}), (std::vector<Piece>{{20, {36}, {1}}}));
  EXPECT_EQ(JoinIfDense({ups, gates}), (std::vector<Piece>{{20, {36}, {1}}}));
  EXPECT_EQ(JoinIfDense({gates}), (std::vector<Piece>{gates})) << "the ups are another rank's";
  const Piece apart{60, {4}, {1}};
  EXPECT_EQ(JoinIfDense({gates, ups, apart}), (std::vector<Piece>{gates, ups, apart}));
  EXPECT_TRUE(JoinIfDense({}).empty());
}

TEST(Pieces, OwnedAreThoseOfReplicaZero) {
  float memory[12] = {};
  const Shard shard("x", DType::kFp32, {4, 3}, {3, 1}, {{{{0, 0}, {2, 3}}, 0, 0}, {{{2, 0}, {2, 3}}, 6, 1}}, memory);
  EXPECT_EQ(OwnedPieces(shard, 32), (std::vector<Piece>{{32, {2, 3}, {3, 1}}}));
}

}  // namespace
}  // namespace trireme
