// The two grids: Megatron's worked examples, refusals, and every layout of every world size up to 64 against
// loops written directly from the rank formulas.
#include "core/plan/grids.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "tests/core/plan/message.h"

namespace trireme {
namespace {

using Lists = std::vector<RankList>;

RankList Range(int first, int last) {
  RankList ranks;
  for (int rank = first; rank <= last; ++rank) ranks.push_back(rank);
  return ranks;
}

Lists Pairs(const std::vector<int>& firsts, int distance) {
  Lists pairs;
  for (int first : firsts) pairs.push_back({first, first + distance});
  return pairs;
}

TEST(Grids, ReplicasAreOfNeighbours) {  // world 16, tp 2, dp 8; ep 2, edp 8
  const Grids grids = MakeGrids(16, {.tensor = 2, .expert = 2, .replicas = 2});
  EXPECT_EQ(ShardAxes(grids.dense, GridKind::kDense), (AxisNames{"cp", "shard"}));
  EXPECT_EQ(grids.dense.Group(9, {"cp", "shard"}), (RankList{9, 11, 13, 15}));
  EXPECT_EQ(grids.dense.Group(9, {"replica"}), (RankList{1, 9}));
  EXPECT_EQ(grids.expert.Group(3, {"eshard"}), (RankList{1, 3, 5, 7}));
  EXPECT_EQ(ShardRanks(grids, GridKind::kExpert), 4);
  EXPECT_EQ(ShardRanks(MakeGrids(16, {.context = 2}), GridKind::kDense), 16);
  EXPECT_EQ(Refusal([] { MakeGrids(12, {.tensor = 2, .replicas = 4}); }),
            "parallel.replicas = 4 does not divide the 6 data-parallel ranks; wanted a divisor of 6");
  EXPECT_EQ(Refusal([] { MakeGrids(8, {.expert = 4, .replicas = 4}); }),
            "parallel.replicas = 4 does not divide the 2 data-parallel ranks of the experts; wanted a divisor of 2");
}

TEST(Grids, DenseExample) {  // world 16, tp 2, cp 2, dp 2, pp 2
  const Mesh mesh = MakeGrids(16, {.tensor = 2, .pipeline = 2, .context = 2}).dense;
  EXPECT_EQ(mesh.Groups({"tp"}), Pairs({0, 2, 4, 6, 8, 10, 12, 14}, 1));
  EXPECT_EQ(mesh.Groups({"cp"}), Pairs({0, 1, 4, 5, 8, 9, 12, 13}, 2));
  EXPECT_EQ(mesh.Groups({"dp"}), Pairs({0, 1, 2, 3, 8, 9, 10, 11}, 4));
  EXPECT_EQ(mesh.Groups({"pp"}), Pairs({0, 1, 2, 3, 4, 5, 6, 7}, 8));
  EXPECT_EQ(mesh.Groups({"dp", "cp"}), (Lists{{0, 2, 4, 6}, {1, 3, 5, 7}, {8, 10, 12, 14}, {9, 11, 13, 15}}));
  EXPECT_EQ(mesh.Groups({"tp", "cp"}), (Lists{Range(0, 3), Range(4, 7), Range(8, 11), Range(12, 15)}));
  EXPECT_EQ(mesh.Groups({"tp", "pp"}), (Lists{{0, 1, 8, 9}, {2, 3, 10, 11}, {4, 5, 12, 13}, {6, 7, 14, 15}}));
}

TEST(Grids, ExpertExample) {  // the same world, ep 4, etp 1
  const Mesh mesh = MakeGrids(16, {.tensor = 2, .pipeline = 2, .context = 2, .expert = 4}).expert;
  EXPECT_EQ(mesh.Size("edp"), 2);
  Lists alone;
  for (int rank = 0; rank < 16; ++rank) alone.push_back({rank});
  EXPECT_EQ(mesh.Groups({"etp"}), alone);
  EXPECT_EQ(mesh.Groups({"ep"}), (Lists{Range(0, 3), Range(4, 7), Range(8, 11), Range(12, 15)}));
  EXPECT_EQ(mesh.Groups({"edp"}), Pairs({0, 1, 2, 3, 8, 9, 10, 11}, 4));
  EXPECT_EQ(mesh.Groups({"etp", "ep", "pp"}), (Lists{{0, 1, 2, 3, 8, 9, 10, 11}, {4, 5, 6, 7, 12, 13, 14, 15}}));
}

TEST(Grids, ExpertTensorExample) {  // etp 2, ep 2
  const Mesh mesh = MakeGrids(16, {.tensor = 2, .pipeline = 2, .context = 2, .expert = 2, .expert_tensor = 2}).expert;
  EXPECT_EQ(mesh.Groups({"ep"}), Pairs({0, 1, 4, 5, 8, 9, 12, 13}, 2));
  EXPECT_EQ(mesh.Groups({"edp"}), Pairs({0, 1, 2, 3, 8, 9, 10, 11}, 4));
}

TEST(Grids, Refusals) {
  EXPECT_EQ(Refusal([] { MakeGrids(6, {.tensor = 2, .pipeline = 2}); }),
            "world 6 is not divisible by tensor 2 x pipeline 2 x context 1 = 4; use a multiple of 4 ranks, "
            "or lower "
            "parallel.tensor or parallel.pipeline");
  EXPECT_EQ(Refusal([] { MakeGrids(8, {.tensor = 2, .expert = 3}); }),
            "world 8 is not divisible by expert_tensor 1 x expert 3 x pipeline 1 = 3; use a multiple of 3 "
            "ranks, or "
            "lower parallel.expert");
  EXPECT_EQ(Refusal([] { MakeGrids(8, {.context = 0}); }), "parallel.context = 0; wanted at least 1");
  EXPECT_EQ(Refusal([] { MakeGrids(0, {}); }), "world 0 has no ranks; wanted at least 1");
  EXPECT_EQ(Refusal([] { MakeGrids(8, {.tensor = 2000000000, .pipeline = 2000000000, .context = 2000000000}); }),
            "parallel.tensor = 2000000000 is more than world 8; lower parallel.tensor");
}

TEST(Grids, Text) {
  EXPECT_EQ(ToText(MakeGrids(2, {.tensor = 2})),
            "dense grid: 2 ranks, rank = tp + 2 cp + 2 dp + 2 pp\n"
            "  axis     size  stride\n"
            "  tp          2       1\n"
            "  cp          1       2\n"
            "  dp          1       2\n"
            "  pp          1       2\n"
            "expert grid: 2 ranks, rank = etp + 1 ep + 1 edp + 2 pp\n"
            "  axis     size  stride\n"
            "  etp         1       1\n"
            "  ep          1       1\n"
            "  edp         2       1\n"
            "  pp          1       2\n"
            "rank    tp   cp   dp   pp |  etp   ep  edp   pp\n"
            "   0     0    0    0    0 |    0    0    0    0\n"
            "   1     1    0    0    0 |    0    0    1    0\n");
}

// Which of four axes a group spans, as bits, fastest axis lowest.
Lists GroupsByLoops(const std::array<int, 4>& n, int over) {
  std::map<std::array<int, 4>, RankList> by_fixed;
  int rank = 0;
  for (int d = 0; d < n[3]; ++d) {
    for (int c = 0; c < n[2]; ++c) {
      for (int b = 0; b < n[1]; ++b) {
        for (int a = 0; a < n[0]; ++a, ++rank) {
          EXPECT_EQ(rank, a + n[0] * (b + n[1] * (c + n[2] * d)));
          by_fixed[{over & 8 ? 0 : d, over & 4 ? 0 : c, over & 2 ? 0 : b, over & 1 ? 0 : a}].push_back(rank);
        }
      }
    }
  }
  Lists groups;
  for (const auto& [fixed, ranks] : by_fixed) groups.push_back(ranks);
  std::sort(groups.begin(), groups.end());
  return groups;
}

void CheckMesh(const Mesh& mesh, const std::array<int, 4>& sizes, int world) {
  ASSERT_EQ(mesh.world(), world);
  for (int rank = 0; rank < world; ++rank) ASSERT_EQ(mesh.RankAt(mesh.Coordinates(rank)), rank);
  for (int over = 0; over < 16; ++over) {
    AxisNames names;
    for (int axis = 3; axis >= 0; --axis) {  // named in the wrong order on purpose
      if (over >> axis & 1) names.push_back(mesh.axes()[axis].name);
    }
    const Lists groups = mesh.Groups(names);
    ASSERT_EQ(groups, GroupsByLoops(sizes, over));
    std::set<int> seen;
    for (const RankList& members : groups) {
      ASSERT_TRUE(std::is_sorted(members.begin(), members.end()));
      for (int rank : members) {
        ASSERT_TRUE(seen.insert(rank).second) << "rank " << rank << " is in two groups";
        ASSERT_EQ(mesh.Group(rank, names), members);
      }
    }
    ASSERT_EQ(static_cast<int>(seen.size()), world);
  }
}

std::vector<int> Divisors(int number) {
  std::vector<int> divisors;
  for (int i = 1; i <= number; ++i) {
    if (number % i == 0) divisors.push_back(i);
  }
  return divisors;
}

// Every (a, b) with a * b dividing `number`.
std::vector<std::pair<int, int>> DivisorPairs(int number) {
  std::vector<std::pair<int, int>> pairs;
  for (int a : Divisors(number)) {
    for (int b : Divisors(number / a)) pairs.emplace_back(a, b);
  }
  return pairs;
}

TEST(Grids, EveryLayoutOfEveryWorldUpTo64) {
  for (int world = 1; world <= 64; ++world) {
    for (int pp : Divisors(world)) {
      const int stage = world / pp;
      const auto pairs = DivisorPairs(stage);
      // The grids are independent, so pairing each dense layout with one expert layout covers both lists.
      for (size_t i = 0; i < pairs.size(); ++i) {
        const auto [tp, cp] = pairs[i];
        const auto [etp, ep] = pairs[(i + 1) % pairs.size()];
        SCOPED_TRACE(Concat("world ", world, " tp ", tp, " cp ", cp, " pp ", pp, " etp ", etp, " ep ", ep));
        const Grids grids =
            MakeGrids(world, {.tensor = tp, .pipeline = pp, .context = cp, .expert = ep, .expert_tensor = etp});
        CheckMesh(grids.dense, {tp, cp, stage / (tp * cp), pp}, world);
        CheckMesh(grids.expert, {etp, ep, stage / (etp * ep), pp}, world);
        ASSERT_EQ(grids.dense.Groups({"pp"}), grids.expert.Groups({"pp"}));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Grids, RefusesExactlyWhatDoesNotDivide) {
  for (int world = 1; world <= 24; ++world) {
    for (int tp = 1; tp <= world; ++tp) {
      for (int ep = 1; ep <= world; ++ep) {
        const bool fits = world % (tp * 2) == 0 && world % (ep * 2) == 0;
        const std::string said = Refusal([&] { MakeGrids(world, {.tensor = tp, .pipeline = 2, .expert = ep}); });
        ASSERT_EQ(said == "no error", fits) << said;
      }
    }
  }
}

}  // namespace
}  // namespace trireme
