// Which tokens each context rank holds, and that every query is paired with each key it may see exactly once.
#include "parallel/context/context_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/base/error.h"

namespace trireme {
namespace {

using Documents = std::vector<Document>;
constexpr int64_t kRows = 2, kLength = 64;

// One document per row; several; padding at the end, and a row of padding only; prompts that two answers share.
const std::vector<Documents> kCases = {{{0, 64}, {64, 128}},
                                       {{0, 10}, {10, 11}, {11, 50}, {50, 64}, {64, 100}},
                                       {{0, 33}},
                                       {},
                                       {{0, 40}, {40, 60, {0, 21}}, {64, 70}, {70, 74, {64, 65}}, {74, 128}}};

std::set<std::pair<int64_t, int64_t>> PairsOf(const Documents& documents) {
  std::set<std::pair<int64_t, int64_t>> pairs;
  for (const Document& document : documents) {
    for (int64_t query = document.begin; query < document.end; ++query) {
      for (int64_t key = document.begin; key <= query; ++key) pairs.emplace(query, key);
      for (int64_t key = document.prefix.begin; key < document.prefix.end; ++key) pairs.emplace(query, key);
    }
  }
  return pairs;
}

// Tokens of a ring position in the order its neighbours hold them, row by row.
std::vector<std::vector<int64_t>> TokensOf(const Documents& documents, ContextSplit split, int position) {
  std::vector<std::vector<int64_t>> rows(kRows);
  for (int inner = 0; inner < split.ulysses; ++inner) {
    split.rank = position * split.ulysses + inner;
    const ContextPlan plan(kRows, kLength, documents, split);
    const std::vector<int64_t> tokens = plan.LocalTokens();
    for (size_t i = 0; i < tokens.size(); ++i) rows[i / plan.local_length()].push_back(tokens[i]);
  }
  return rows;
}

TEST(ContextPlan, EveryTokenHasOneRankAndEveryPairIsComputedOnce) {
  for (const Documents& documents : kCases) {
    for (const auto& [ring, ulysses] : std::vector<std::pair<int, int>>{{1, 1}, {2, 1}, {4, 1}, {1, 4}, {2, 2}}) {
      SCOPED_TRACE(Concat("ring ", ring, " ulysses ", ulysses, " documents ", documents.size()));
      std::map<int, std::vector<std::vector<int64_t>>> tokens;
      std::set<int64_t> all;
      for (int position = 0; position < ring; ++position) {
        tokens[position] = TokensOf(documents, {ring, ulysses}, position);
        for (const auto& row : tokens[position]) {
          EXPECT_EQ(static_cast<int64_t>(row.size()), kLength / ring);
          all.insert(row.begin(), row.end());
        }
      }
      EXPECT_EQ(static_cast<int64_t>(all.size()), kRows * kLength);
      std::set<std::pair<int64_t, int64_t>> pairs;
      for (int position = 0; position < ring; ++position) {
        const ContextPlan plan(kRows, kLength, documents, {ring, ulysses, position * ulysses});
        for (int other = 0; other < ring; ++other) {
          for (int64_t row = 0; row < kRows; ++row) {
            for (const AttentionTile& tile : plan.Tiles(other).at(row)) {
              for (int64_t i = 0; i < tile.queries; ++i) {
                for (int64_t j = 0; j < std::min(tile.keys, tile.first + i + 1); ++j) {
                  const int64_t query = tokens[position][row].at(tile.query + i);
                  const int64_t key = tokens[other][row].at(tile.key + j);
                  EXPECT_TRUE(pairs.emplace(query, key).second) << query << " meets " << key << " twice";
                }
              }
            }
          }
        }
      }
      EXPECT_EQ(pairs, PairsOf(documents));
    }
  }
}

TEST(ContextPlan, OneDocumentIsSplitInZigZag) {
  const ContextPlan plan(1, 16, {{0, 16}}, {.ring = 4, .rank = 1});
  EXPECT_EQ(plan.LocalTokens(), (std::vector<int64_t>{2, 3, 12, 13}));
  EXPECT_FALSE(plan.plain());
  EXPECT_TRUE(ContextPlan(1, 16, {{0, 16}}, {}).plain());
  EXPECT_TRUE(ContextPlan(1, 16, {{0, 9}}, {}).plain());  // the padding after it belongs to no rank
  EXPECT_FALSE(ContextPlan(1, 16, {{0, 9}, {9, 16}}, {}).plain());
}

// One document: each position has the same work except for the diagonal of its blocks. Packed: within a few
// percent.
TEST(ContextPlan, WorkIsBalanced) {
  const std::vector<Documents> rows = {{{0, 8192}},
                                       {{0, 5000}, {5000, 5100}, {5100, 8000}},
                                       {{0, 700}, {700, 1000}, {1000, 4096}, {4096, 4200}, {4200, 8192}}};
  for (const Documents& documents : rows) {
    for (int ring : {2, 4, 8}) {
      const ContextPlan plan(1, 8192, documents, {.ring = ring});
      int64_t most = 0, sum = 0;
      for (int position = 0; position < ring; ++position) {
        most = std::max(most, plan.Work(position));
        sum += plan.Work(position);
      }
      EXPECT_LT(static_cast<double>(most) * ring / static_cast<double>(sum), documents.size() == 1 ? 1.0001 : 1.12)
          << ring << " positions, " << documents.size() << " documents";
    }
  }
}

}  // namespace
}  // namespace trireme
