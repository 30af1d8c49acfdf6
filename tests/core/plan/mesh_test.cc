// Mesh: coordinates, groups over axes and factors, and what it refuses.
#include "core/plan/mesh.h"

#include <gtest/gtest.h>

#include "tests/core/plan/message.h"

namespace trireme {
namespace {

Mesh Example() { return Mesh("dense grid", {{"tp", 2}, {"cp", 2}, {"dp", 2}, {"pp", 2}}); }

TEST(Mesh, CoordinatesAndBack) {
  const Mesh mesh = Example();
  EXPECT_EQ(mesh.world(), 16);
  EXPECT_EQ(mesh.Coordinates(13), (std::vector<int>{1, 0, 1, 1}));
  EXPECT_EQ(mesh.RankAt({1, 0, 1, 1}), 13);
  EXPECT_EQ(mesh.Coordinate(13, "cp"), 0);
  EXPECT_EQ(mesh.Coordinate(13, "dp"), 1);
}

TEST(Mesh, MembersFollowTheMeshNotTheNames) {
  const Mesh mesh = Example();
  EXPECT_EQ(mesh.Group(5, {"dp", "cp"}), (RankList{1, 3, 5, 7}));
  EXPECT_EQ(mesh.Group(5, {"cp", "dp"}), (RankList{1, 3, 5, 7}));
  EXPECT_EQ(mesh.Group(5, {"pp", "tp"}), (RankList{4, 5, 12, 13}));
}

TEST(Mesh, GroupOverNoAxisIsTheRankAlone) { EXPECT_EQ(Example().Group(9, {}), RankList{9}); }

TEST(Mesh, AxesOfSizeOneAreOrdinary) {
  const Mesh mesh("m", {{"a", 1}, {"b", 3}, {"c", 1}});
  EXPECT_EQ(mesh.Group(1, {"a"}), RankList{1});
  EXPECT_EQ(mesh.Group(1, {"c", "b", "a"}), (RankList{0, 1, 2}));
}

TEST(Mesh, FactorsNameThePartsOfAnAxis) {
  Mesh mesh("dense grid", {{"tp", 2}, {"cp", 4}, {"dp", 2}});
  mesh.Factor("cp", {"ulysses", 2}, "ring");
  EXPECT_EQ(mesh.world(), 16);
  EXPECT_EQ(mesh.Group(0, {"ulysses"}), (RankList{0, 2}));
  EXPECT_EQ(mesh.Group(0, {"ring"}), (RankList{0, 4}));
  EXPECT_EQ(mesh.Group(3, {"ring", "ulysses"}), mesh.Group(3, {"cp"}));
  EXPECT_EQ(mesh.Coordinate(6, "ulysses"), 1);
  EXPECT_EQ(mesh.Coordinate(6, "ring"), 1);
  EXPECT_EQ(Refusal([&] { mesh.Group(0, {"cp", "ring"}); }),
            "dense grid: axis ring overlaps another axis of the same group");
  EXPECT_EQ(Refusal([&] { mesh.Factor("cp", {"third", 3}, "rest"); }),
            "dense grid: axis cp = 4 is not divisible by third = 3; choose a divisor of 4");
}

TEST(Mesh, Refusals) {
  const Mesh mesh = Example();
  EXPECT_EQ(Refusal([&] { mesh.Group(0, {"dq"}); }), "dense grid has no axis 'dq'; known: tp, cp, dp, pp");
  EXPECT_EQ(Refusal([&] { mesh.Group(0, {"tp", "tp"}); }),
            "dense grid: axis tp overlaps another axis of the same group");
  EXPECT_EQ(Refusal([&] { mesh.Coordinate(16, "tp"); }), "dense grid: rank 16 is out of range; wanted 0 to 15");
  EXPECT_EQ(Refusal([&] { mesh.RankAt({0, 2, 0, 0}); }), "dense grid: cp coordinate 2 is out of range; wanted 0 to 1");
  EXPECT_EQ(Refusal([&] { mesh.RankAt({0, 0}); }),
            "dense grid: 2 coordinates given; wanted one for each of tp, cp, dp, pp");
  EXPECT_EQ(Refusal([] { Mesh("m", {{"a", 2}, {"a", 2}}); }), "m: axis a is named twice; known: a");
  EXPECT_EQ(Refusal([] { Mesh("m", {{"a", 0}}); }), "m: axis a = 0; wanted at least 1");
  EXPECT_EQ(Refusal([] { Mesh("m", {{"a", 1 << 20}, {"b", 1 << 20}}); }),
            "m: axis b = 1048576 makes too many ranks for an int");
}

TEST(Mesh, Text) {
  EXPECT_EQ(Mesh("dense grid", {{"tp", 2}, {"cp", 1}, {"dp", 4}}).ToText(),
            "dense grid: 8 ranks, rank = tp + 2 cp + 2 dp\n"
            "  axis     size  stride\n"
            "  tp          2       1\n"
            "  cp          1       2\n"
            "  dp          4       2\n");
}

}  // namespace
}  // namespace trireme
