// Placements: shapes, boxes, owners, padding, fused blocks, refusals; and, for random
// declarations, that every element is held once per replica.
#include "core/plan/placement.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tests/core/plan/elements.h"
#include "tests/core/plan/message.h"

namespace trireme {
namespace {

TEST(Placement, ColumnSplit) {
  const Grids grids = MakeGrids(4, {.tensor = 2});
  const Placement weight({.name = "w", .dtype = DType::kBf16, .dims = {SplitDim("tp", {{8, 2}}), WholeDim(3)}}, grids);
  EXPECT_EQ(weight.GlobalShape(), (Shape{8, 3}));
  EXPECT_EQ(weight.LocalShape(), (Shape{4, 3}));
  const auto boxes = weight.LocalBoxes(3);  // tp 1, dp 1
  ASSERT_EQ(boxes.size(), 1u);
  EXPECT_EQ(boxes[0].global, (Box{{4, 0}, {4, 3}}));
  EXPECT_EQ(boxes[0].replica, 1);
  EXPECT_EQ(weight.LocalBoxes(1)[0].replica, 0);
  EXPECT_EQ(weight.LocalBoxes(3, {"dp"})[0].replica, 0);
  EXPECT_TRUE(weight.SharedBlocks().empty());
}

TEST(Placement, FusedBlocksWithSharedKeyValueHeads) {
  // 8 query heads, 2 key and 2 value heads of 4, on tp 4: two ranks share each key and value head.
  const Grids grids = MakeGrids(4, {.tensor = 4});
  const Placement qkv({.name = "qkv", .dims = {SplitDim("tp", {{32, 4, 4}, {8, 2, 4}, {8, 2, 4}}), WholeDim(5)}},
                      grids);
  EXPECT_EQ(qkv.LocalShape(), (Shape{16, 5}));
  const auto boxes = qkv.LocalBoxes(3);
  ASSERT_EQ(boxes.size(), 3u);
  EXPECT_EQ(boxes[0].global, (Box{{24, 0}, {8, 5}}));
  EXPECT_EQ(boxes[1].global, (Box{{36, 0}, {4, 5}}));
  EXPECT_EQ(boxes[2].global, (Box{{44, 0}, {4, 5}}));
  EXPECT_EQ(boxes[2].local_offset, (Shape{12, 0}));
  EXPECT_EQ(boxes[0].replica, 0);
  EXPECT_EQ(boxes[1].replica, 1);
  const auto shared = qkv.SharedBlocks();
  ASSERT_EQ(shared.size(), 2u);
  EXPECT_EQ(shared[1].local_offset, 12);
  EXPECT_EQ(shared[1].local_size, 4);
  EXPECT_EQ(shared[1].axis, "tp");
  EXPECT_EQ(shared[1].ranks, 2);
}

TEST(Placement, PaddingIsAllocatedButOwnedByNobody) {
  const Grids grids = MakeGrids(4, {.tensor = 4});
  const Placement embedding(
      {.name = "embed", .dims = {SplitDim("tp", {{.size = 9, .parts = 4, .padding = PaddingTo(9, 16)}}), WholeDim(2)}},
      grids);
  EXPECT_EQ(embedding.GlobalShape(), (Shape{9, 2}));
  EXPECT_EQ(embedding.LocalShape(), (Shape{4, 2}));
  EXPECT_EQ(embedding.LocalBoxes(2)[0].global, (Box{{8, 0}, {1, 2}}));
  EXPECT_TRUE(embedding.LocalBoxes(3).empty());
  EXPECT_EQ(PaddingTo(16, 16), 0);
}

TEST(Placement, ExpertsLiveOnTheExpertGrid) {
  const Grids grids = MakeGrids(8, {.tensor = 2, .expert = 2, .expert_tensor = 2});
  const Placement up({.name = "experts.up",
                      .grid = GridKind::kExpert,
                      .dims = {SplitDim("ep", {{6, 2}}), SplitDim("etp", {{10, 2}, {10, 2}}), WholeDim(4)}},
                     grids);
  EXPECT_EQ(up.LocalShape(), (Shape{3, 10, 4}));
  const auto boxes = up.LocalBoxes(7);  // etp 1, ep 1, edp 1
  ASSERT_EQ(boxes.size(), 2u);
  EXPECT_EQ(boxes[0].global, (Box{{3, 5, 0}, {3, 5, 4}}));
  EXPECT_EQ(boxes[1].global, (Box{{3, 15, 0}, {3, 5, 4}}));
  EXPECT_EQ(boxes[1].replica, 1);
}

TEST(Placement, EveryRankHasAReplicaOfANorm) {
  const Grids grids = MakeGrids(8, {.tensor = 2, .context = 2});
  const Placement norm({.name = "norm", .dims = {WholeDim(7)}, .partial_gradient = {"tp"}}, grids);
  EXPECT_EQ(norm.LocalBoxes(7)[0].replica, 7);
}

TEST(Placement, ScalarHasOneBox) {
  const Placement scalar({.name = "scale"}, MakeGrids(2, {}));
  EXPECT_EQ(scalar.LocalShape(), Shape{});
  ASSERT_EQ(scalar.LocalBoxes(1).size(), 1u);
  EXPECT_EQ(scalar.LocalBoxes(1)[0].replica, 1);
}

TEST(Placement, Refusals) {
  const Grids grids = MakeGrids(8, {.tensor = 4, .pipeline = 2});
  const auto refusal = [&](const std::string& name, const std::vector<Dim>& dims, const AxisNames& partial = {}) {
    return Refusal([&] { Placement({.name = name, .dims = dims, .partial_gradient = partial}, grids); });
  };
  EXPECT_EQ(refusal("q_proj.weight", {SplitDim("tp", {{4097, 4}})}),
            "q_proj.weight: dim 0 = 4097 does not divide over tp = 4");
  EXPECT_EQ(refusal("k_proj.weight", {WholeDim(2), SplitDim("tp", {{.size = 192, .parts = 2, .unit = 64}})}),
            "k_proj.weight: dim 1 = 3 x 64 does not divide into 2 parts over tp = 4");
  EXPECT_EQ(refusal("k", {SplitDim("tp", {{.size = 6, .parts = 3}})}),
            "k: dim 0 in 3 parts cannot be spread over tp = 4; wanted a number of parts that divides the ranks");
  EXPECT_EQ(refusal("w", {SplitDim("tp", {{4, 4}}), SplitDim("tp", {{4, 4}})}),
            "w: dim 1 cannot be split over tp, which splits an earlier dim; choose another axis");
  EXPECT_EQ(refusal("w", {SplitDim("pp", {{4, 2}})}),
            "w: dim 0 cannot be split over pp, which splits layers; choose another axis");
  EXPECT_EQ(refusal("w", {SplitDim("ep", {{4, 1}})}), "dense grid has no axis 'ep'; known: tp, cp, dp, pp");
  EXPECT_EQ(refusal("w", {Dim{}}), "w: dim 0 has no block; wanted at least one");
  EXPECT_EQ(refusal("w", {WholeDim(-1)}),
            "w: dim 0 has a block of size -1, padding 0, parts 1, unit 1; wanted no negative value, parts and "
            "unit at least 1");
  EXPECT_EQ(refusal("w", {SplitDim("tp", {{4, 4}})}, {"tp"}),
            "w: the gradient cannot be partial over tp, because the parameter is split over it");
}

struct RandomCase {
  Grids grids;
  ParameterDeclaration declaration;
};

RandomCase MakeRandomCase(std::mt19937& random) {
  const auto pick = [&](std::initializer_list<int> values) { return *(values.begin() + random() % values.size()); };
  const int tp = pick({1, 2, 4}), cp = pick({1, 2}), dp = pick({1, 2, 3}), pp = pick({1, 2});
  RandomCase result = {MakeGrids(tp * cp * dp * pp, {.tensor = tp, .pipeline = pp, .context = cp}), {.name = "random"}};
  const int dims = random() % 4;
  const int split = random() % 4;
  for (int dim = 0; dim < dims; ++dim) {
    if (dim != split) {
      result.declaration.dims.push_back(WholeDim(1 + random() % 4));
      continue;
    }
    std::vector<Block> blocks(1 + random() % 3);
    for (Block& block : blocks) {
      block.parts = tp / (tp > 1 ? pick({1, 2}) : 1);
      block.size = 1 + random() % 9;
      block.padding = PaddingTo(block.size, block.parts);
    }
    result.declaration.dims.push_back(SplitDim("tp", blocks));
  }
  return result;
}

TEST(Placement, EveryElementIsHeldOncePerReplica) {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    const RandomCase drawn = MakeRandomCase(random);
    const Placement placement(drawn.declaration, drawn.grids);
    const Mesh& mesh = placement.mesh();
    const int stage_ranks = mesh.world() / mesh.Size("pp");
    std::map<Shape, std::vector<int>> replicas;  // of each element, on the first stage
    for (int rank = 0; rank < stage_ranks; ++rank) {
      std::map<Shape, int> local;  // each local element belongs to one box at most
      for (const LocalBox& box : placement.LocalBoxes(rank)) {
        ForEachElement(box.global, [&](const Shape& index) { replicas[index].push_back(box.replica); });
        ForEachElement({box.local_offset, box.global.extent}, [&](const Shape& index) {
          ASSERT_EQ(local[index]++, 0);
          for (size_t dim = 0; dim < index.size(); ++dim) ASSERT_LT(index[dim], placement.LocalShape()[dim]);
        });
      }
      const auto here = placement.LocalBoxes(rank);
      const auto other_stage = placement.LocalBoxes(rank + (mesh.world() - stage_ranks));
      ASSERT_EQ(here.size(), other_stage.size());
    }
    ASSERT_EQ(static_cast<int64_t>(replicas.size()), Elements(placement.GlobalShape()));
    for (auto& [index, list] : replicas) {
      std::sort(list.begin(), list.end());
      for (size_t i = 0; i < list.size(); ++i) ASSERT_EQ(list[i], static_cast<int>(i)) << ShapeText(index);
    }
  }
}

}  // namespace
}  // namespace trireme
