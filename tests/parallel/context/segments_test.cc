// Segments of documents on context ranks: each token of a document is in one, chains are in order, and the tokens
// before a segment arrive from whichever ranks hold them.
#include "parallel/context/segments.h"

#include <gtest/gtest.h>

#include <map>

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr int64_t kRowLength = 64, kReach = 3;
// One document per row; several; very short ones; padding; none.
const std::vector<std::vector<Document>> kPacks = {{{0, 64}, {64, 128}},
                                                   {{0, 10}, {10, 11}, {11, 50}, {50, 64}, {64, 100}},
                                                   {{0, 2}, {2, 4}, {4, 40}, {70, 127}},
                                                   {{0, 33}},
                                                   {}};

struct Ranks {
  Ranks(const std::vector<Document>& documents, int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      const ContextPlan plan(2, kRowLength, documents, {.ring = ranks, .ulysses = 1, .rank = rank});
      tokens.push_back(plan.LocalTokens());
      plans.push_back(SegmentsOf(plan, ranks, rank, kReach));
    }
  }
  int64_t TokenAt(int rank, int64_t place) const {
    return tokens[static_cast<size_t>(rank)][static_cast<size_t>(place)];
  }

  std::vector<std::vector<int64_t>> tokens;
  std::vector<SegmentPlan> plans;
};

TEST(Segments, HoldEachTokenOfDocumentsOnce) {
  for (const auto& documents : kPacks) {
    for (const int ranks : {2, 4, 8}) {
      const Ranks all(documents, ranks);
      std::map<int64_t, int> seen;
      for (int rank = 0; rank < ranks; ++rank) {
        const SegmentPlan& plan = all.plans[static_cast<size_t>(rank)];
        EXPECT_EQ(plan.chains.size(), all.plans[0].chains.size());
        EXPECT_LE(std::ssize(plan.mine), plan.most);
        for (const TokenRange& range : plan.whole) {
          for (int64_t i = range.begin; i < range.end; ++i) ++seen[all.TokenAt(rank, i)];
        }
        for (const Segment& segment : plan.mine) {
          for (int64_t i = segment.begin; i < segment.end; ++i) ++seen[all.TokenAt(rank, i)];
        }
      }
      int64_t wanted = 0;
      for (const Document& document : documents) wanted += document.size();
      EXPECT_EQ(std::ssize(seen), wanted) << ranks << " ranks";
      for (const auto& [token, times] : seen) EXPECT_EQ(times, 1) << token;
    }
  }
}

TEST(Segments, FollowEachOtherInChains) {
  const Ranks all(kPacks[1], 4);
  for (const auto& chain : all.plans[0].chains) {
    int64_t next = all.TokenAt(chain.front().rank, chain.front().begin);
    EXPECT_EQ(chain.front().place, 0);
    for (const Segment& segment : chain) {
      for (int64_t i = segment.begin; i < segment.end; ++i) EXPECT_EQ(all.TokenAt(segment.rank, i), next++);
    }
  }
}

TEST(Segments, TakeTheTokensBeforeThem) {
  for (const auto& documents : kPacks) {
    for (const int ranks : {2, 4, 8}) {
      const Ranks all(documents, ranks);
      for (int rank = 0; rank < ranks; ++rank) {
        const SegmentPlan& plan = all.plans[static_cast<size_t>(rank)];
        for (const Segment& segment : plan.mine) {
          const TokenRange& border = plan.borders[static_cast<size_t>(segment.slot)];
          EXPECT_EQ(border.size(), std::min(kReach, segment.place));
          for (int64_t i = border.begin; i < border.end; ++i) {
            const int64_t row = plan.taken[static_cast<size_t>(i)];
            const auto owner = static_cast<int>(row / plan.most_given);
            const auto& given = all.plans[static_cast<size_t>(owner)].given;
            const int64_t token = all.TokenAt(owner, given[static_cast<size_t>(row % plan.most_given)]);
            EXPECT_EQ(token, all.TokenAt(rank, segment.begin) - (border.end - i));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme
