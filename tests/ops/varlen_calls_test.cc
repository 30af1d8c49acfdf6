// VarLenCalls: every pair of query and key that tiles hold is in exactly one call, whatever the limits; calls
// are what the operator takes; tiles of one sequence become one sequence again.
#include "ops/attention/varlen_calls.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

#include "ops/attention/windowed_tiles.h"

namespace trireme {
namespace {

using Pairs = std::map<std::pair<int64_t, int64_t>, int>;  // query and key among all rows: how often

Pairs PairsOfTiles(const RowTiles& tiles, const RowLengths& lengths) {
  Pairs pairs;
  for (size_t row = 0; row < tiles.size(); ++row) {
    const auto index = static_cast<int64_t>(row);
    for (const AttentionTile& t : tiles[row]) {
      for (int64_t q = 0; q < t.queries; ++q) {
        const int64_t end = t.first + q + 1, begin = t.window > 0 ? std::max<int64_t>(end - t.window, 0) : 0;
        for (int64_t k = begin; k < std::min(t.keys, end); ++k)
          ++pairs[{index * lengths.queries + t.query + q, index * lengths.keys + t.key + k}];
      }
    }
  }
  return pairs;
}

// By the operator's rule: causal sequences are aligned at their ends, and so are bands, of which a query attends to
// `before` keys before its own and `after` after it.
Pairs PairsOfCalls(const std::vector<VarLenCall>& calls) {
  Pairs pairs;
  for (const VarLenCall& call : calls) {
    for (const AttentionTile& t : call.sequences) {
      for (int64_t q = 0; q < t.queries; ++q) {
        const int64_t own = t.keys - t.queries + q, before = call.window - 1 - call.beyond, after = call.beyond;
        const bool band = call.window > 0;
        const int64_t begin = band ? std::max<int64_t>(own - before, 0) : 0;
        const int64_t end = band ? std::min(own + after + 1, t.keys) : call.causal ? own + 1 : t.keys;
        EXPECT_LT(begin, end) << "a query without a key";
        for (int64_t k = begin; k < end; ++k) ++pairs[{t.query + q, t.key + k}];
      }
    }
  }
  return pairs;
}

void ExpectWithin(const std::vector<VarLenCall>& calls, const VarLenLimits& limits) {
  for (const VarLenCall& call : calls) {
    ASSERT_FALSE(call.sequences.empty());
    EXPECT_LE(static_cast<int64_t>(call.sequences.size()), limits.sequences);
    EXPECT_LE(call.QueryEnds().back(), limits.tokens);
    EXPECT_LE(call.KeyEnds().back(), limits.tokens);
    for (size_t i = 0; i < call.sequences.size(); ++i) {
      const AttentionTile& t = call.sequences[i];
      EXPECT_GE(t.queries, 1);
      EXPECT_GE(t.keys, call.causal ? t.queries : 1);
      if (i == 0) continue;
      const AttentionTile& before = call.sequences[i - 1];
      EXPECT_GE(t.query, before.query + before.queries);
      EXPECT_GE(t.key, before.key + before.keys);
    }
  }
}

// Tiles as ranks of a ring have them: each query range against key ranges of any offset, in order.
RowTiles RandomTiles(std::mt19937& random, const RowLengths& lengths) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  RowTiles tiles(1 + below(3));
  for (auto& row : tiles) {
    for (int64_t query = below(3); query < lengths.queries;) {
      const int64_t queries = std::min(lengths.queries - query, 1 + below(9));
      for (int64_t key = below(4); key < lengths.keys && below(5) != 0;) {
        const int64_t keys = std::min(lengths.keys - key, 1 + below(9));
        const int64_t window = below(2) * (1 + below(12));
        row.push_back({query, queries, key, keys, below(2) == 0 ? below(keys + 2) : 0, window});
        key += keys + below(2) * below(3);
      }
      query += queries + below(2) * below(3);
    }
  }
  return tiles;
}

TEST(VarLenCalls, HaveEveryPairOnce) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    const auto up_to = [&](uint64_t n) { return 1 + static_cast<int64_t>(random() % n); };
    const RowLengths lengths{up_to(30), up_to(30)};
    const RowTiles tiles = RandomTiles(random, lengths);
    const VarLenLimits limits{up_to(6), up_to(40)};
    const std::vector<VarLenCall> calls = VarLenCalls(tiles, lengths, limits);
    ASSERT_EQ(PairsOfCalls(calls), PairsOfTiles(tiles, lengths)) << "round " << round;
    ExpectWithin(calls, limits);
  }
}

// Documents under a window: one call for those that are longer than it, one for the others; nothing is merged.
TEST(VarLenCalls, OfWindowsAreBands) {
  const RowTiles documents = {{{.query = 0, .queries = 8, .key = 0, .keys = 8, .first = 0},
                               {.query = 8, .queries = 3, .key = 8, .keys = 3, .first = 0},
                               {.query = 11, .queries = 9, .key = 11, .keys = 9, .first = 0}}};
  const std::vector<VarLenCall> calls = VarLenCalls(Windowed(documents, 4), {20, 20});
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].window, 4);
  EXPECT_EQ(calls[0].beyond, 0);
  EXPECT_EQ(calls[0].QueryEnds(), (std::vector<int64_t>{8, 17}));
  EXPECT_TRUE(calls[1].causal);
  EXPECT_EQ(calls[1].window, 0);
  EXPECT_FALSE(NeedMerge(calls));
}

// Keys of an earlier ring position: only the queries that reach them, and only the keys that are reached.
TEST(VarLenCalls, OfWindowsOverARingLeaveOutWhatIsHidden) {
  const RowTiles earlier = {{{.query = 0, .queries = 8, .key = 0, .keys = 8, .first = 8}}};
  const RowTiles tiles = Windowed(earlier, 4);
  ASSERT_EQ(tiles[0].size(), 1u);
  EXPECT_EQ(tiles[0][0], (AttentionTile{0, 3, 5, 3, 3, 4}));
  EXPECT_TRUE(Windowed({{{.query = 0, .queries = 8, .key = 0, .keys = 8, .first = 12}}}, 4)[0].empty());
  EXPECT_EQ(Windowed(earlier, 0), earlier);
}

TEST(VarLenCalls, OfPackedRowsAreOneCallWithoutGaps) {
  const RowTiles tiles = {{{.query = 0, .queries = 3, .key = 0, .keys = 3, .first = 0},
                           {.query = 3, .queries = 1, .key = 3, .keys = 1, .first = 0},
                           {.query = 4, .queries = 4, .key = 4, .keys = 4, .first = 0}},
                          {{.query = 0, .queries = 8, .key = 0, .keys = 8, .first = 0}}};
  const std::vector<VarLenCall> calls = VarLenCalls(tiles, {8, 8});
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_TRUE(calls[0].causal);
  EXPECT_EQ(calls[0].QueryEnds(), (std::vector<int64_t>{3, 4, 8, 16}));
  ASSERT_EQ(calls[0].KeyRuns().size(), 1u);
  EXPECT_EQ(calls[0].KeyRuns()[0].size, 16);
  EXPECT_FALSE(NeedMerge(calls));
}

// Both blocks of a ring position, first and last of the row: one causal sequence with itself, one that sees
// all keys of an earlier position, and later queries that see all keys of a later one.
TEST(VarLenCalls, OfARingAreOneSequencePerStep) {
  const RowTiles own = {{{.query = 0, .queries = 4, .key = 0, .keys = 4, .first = 0},
                         {.query = 4, .queries = 4, .key = 0, .keys = 4, .first = 12},
                         {.query = 4, .queries = 4, .key = 4, .keys = 4, .first = 0}}};
  const RowTiles later = {{{.query = 4, .queries = 4, .key = 0, .keys = 4, .first = 8},
                           {.query = 4, .queries = 4, .key = 4, .keys = 4, .first = 4}}};
  const RowTiles earlier = {{{.query = 0, .queries = 4, .key = 0, .keys = 4, .first = 4},
                             {.query = 4, .queries = 4, .key = 0, .keys = 4, .first = 8}}};
  const auto one = [](const RowTiles& tiles) {
    const std::vector<VarLenCall> calls = VarLenCalls(tiles, {8, 8});
    EXPECT_EQ(calls.size(), 1u);
    EXPECT_EQ(calls[0].sequences.size(), 1u);
    return calls[0];
  };
  EXPECT_TRUE(one(own).causal);
  EXPECT_EQ(one(own).sequences[0], (AttentionTile{0, 8, 0, 8, 0}));
  EXPECT_FALSE(one(later).causal);
  EXPECT_EQ(one(later).sequences[0], (AttentionTile{4, 4, 0, 8, 7}));
  EXPECT_EQ(one(earlier).sequences[0], (AttentionTile{0, 8, 0, 4, 3}));
}

// Two answers to one prompt: the first continues it, the second attends to it in a call of its own.
TEST(VarLenCalls, OfASharedPromptAreMerged) {
  const RowTiles tiles = {{{.query = 0, .queries = 3, .key = 0, .keys = 3, .first = 0},
                           {.query = 3, .queries = 2, .key = 0, .keys = 3, .first = 3},
                           {.query = 3, .queries = 2, .key = 3, .keys = 2, .first = 0},
                           {.query = 5, .queries = 2, .key = 0, .keys = 3, .first = 3},
                           {.query = 5, .queries = 2, .key = 5, .keys = 2, .first = 0}}};
  const std::vector<VarLenCall> calls = VarLenCalls(tiles, {7, 7});
  EXPECT_EQ(PairsOfCalls(calls), PairsOfTiles(tiles, {7, 7}));
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].sequences[0], (AttentionTile{0, 5, 0, 5, 0}));
  EXPECT_TRUE(NeedMerge(calls));
}

TEST(VarLenCalls, OfTenThousandDocumentsAreTenCalls) {
  RowTiles tiles(1);
  for (int64_t d = 0; d < 10000; ++d) tiles[0].push_back({.query = d, .queries = 1, .key = d, .keys = 1});
  const std::vector<VarLenCall> calls = VarLenCalls(tiles, {10000, 10000});
  EXPECT_EQ(calls.size(), 10u);
  ExpectWithin(calls, {});
  EXPECT_FALSE(NeedMerge(calls));
}

TEST(VarLenCalls, OfARowBeyondTheLimitAreMerged) {
  const int64_t length = 3 * (int64_t{1} << 20) / 2;
  const std::vector<VarLenCall> calls = VarLenCalls({{{.queries = length, .keys = length}}}, {length, length});
  ExpectWithin(calls, {});
  EXPECT_TRUE(NeedMerge(calls));
  EXPECT_TRUE(VarLenCalls({{}, {}}, {8, 8}).empty());
  EXPECT_FALSE(NeedMerge({}));
}

}  // namespace
}  // namespace trireme
