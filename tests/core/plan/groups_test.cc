// The group plan: order, members, sharing, memory and the table.
#include "core/plan/groups.h"

#include <gtest/gtest.h>

#include "tests/core/plan/message.h"

namespace trireme {
namespace {

GroupPlan Plan(int world, const ParallelSizes& sizes, const GroupNeeds& needs = {}) {
  return {MakeGrids(world, sizes), TrainingGroups(needs)};
}

TEST(GroupPlan, MembersOfARank) {
  const GroupPlan plan = Plan(16, {.tensor = 2, .pipeline = 2, .context = 2, .expert = 4});
  EXPECT_EQ(plan.Members("tp", 5), (RankList{4, 5}));
  EXPECT_EQ(plan.Members("dp-cp", 5), (RankList{1, 3, 5, 7}));
  EXPECT_EQ(plan.Members("ep", 5), (RankList{4, 5, 6, 7}));
  EXPECT_EQ(plan.Members("edp", 5), (RankList{1, 5}));
  EXPECT_EQ(plan.Members("world", 5).size(), 16u);
  EXPECT_EQ(Refusal([&] { plan.Members("tq", 0); }),
            "no group 'tq' is planned; known: world, tp, cp, tp-cp, etp, ep, etp-ep, pp, embedding, dp-cp, edp");
}

TEST(GroupPlan, OrderIsTheSameForEveryLayout) {
  const auto names = [](const GroupPlan& plan) {
    std::vector<std::string> list;
    for (const PlannedGroup& group : plan.groups()) list.push_back(group.spec.name);
    return list;
  };
  EXPECT_EQ(names(Plan(1, {})), names(Plan(16, {.tensor = 2, .expert = 8})));
}

TEST(GroupPlan, EmbeddingJoinsFirstAndLastStageOnly) {
  const GroupPlan plan = Plan(8, {.tensor = 2, .pipeline = 4});
  EXPECT_EQ(plan.Members("embedding", 0), (RankList{0, 6}));
  EXPECT_EQ(plan.Members("embedding", 7), (RankList{1, 7}));
  EXPECT_EQ(plan.Members("embedding", 2), RankList{});
  EXPECT_EQ(plan.Find("embedding").shares, "");
}

TEST(GroupPlan, SharesOnlyWithinALane) {
  // pp 2: both stages are outer ones. ep has the same members as dp-cp, but gradients must not block a
  // dispatch.
  const GroupPlan plan = Plan(8, {.pipeline = 2, .expert = 4});
  EXPECT_EQ(plan.Find("embedding").shares, "pp");
  EXPECT_EQ(plan.Find("ep").members, plan.Find("dp-cp").members);
  EXPECT_EQ(plan.Find("dp-cp").shares, "");
  EXPECT_EQ(plan.Find("etp-ep").shares, "ep");
}

TEST(GroupPlan, ASmallerBufferNeverServesALargerGroup) {
  // tp-cp (statistics, small) and ep (dispatch, large) have the same members.
  const GroupPlan plan = Plan(16, {.tensor = 2, .pipeline = 2, .context = 2, .expert = 4});
  EXPECT_EQ(plan.Find("tp-cp").members, plan.Find("ep").members);
  EXPECT_EQ(plan.Find("ep").shares, "");
}

TEST(GroupPlan, GroupsOfOneUseNoMemory) {
  EXPECT_EQ(Plan(1, {}).DeviceMemoryMb(), std::vector<int>{0});
  // world 2 x 16, tp 2 x 200 shared with tp-cp, and edp 2 x 200: experts are not split by tp.
  const GroupPlan plan = Plan(2, {.tensor = 2});
  EXPECT_EQ(plan.DeviceMemoryMb(), (std::vector<int>{832, 832}));
  EXPECT_EQ(plan.Find("tp-cp").shares, "tp");
}

TEST(GroupPlan, CreatesOnlyWhatTheGroupNeeds) {
  const GroupPlan plan = Plan(8, {.tensor = 2, .pipeline = 4}, {.experts = false, .tied_embedding = false});
  std::vector<std::string> names;
  for (const PlannedGroup& group : plan.groups()) names.push_back(group.spec.name);
  EXPECT_EQ(names, (std::vector<std::string>{"world", "tp", "cp", "pp", "dp-cp"}));
  EXPECT_EQ(plan.DeviceMemoryMb(), std::vector<int>(8, 32 + 400 + 128));
}

TEST(GroupPlan, BuffersAreAtMostTheChosenSize) {
  const auto plan = Plan(2, {.tensor = 2}, {.experts = false, .buffer_mb = 8});
  EXPECT_EQ(plan.Find("world").spec.buffer_mb, 8);
  EXPECT_EQ(plan.DeviceMemoryMb(), std::vector<int>(2, 2 * 8 + 2 * 8));
}

TEST(GroupPlan, InnerStagesUseLess) {
  // world 32, pp 128, and embedding 128 on the outer stages.
  EXPECT_EQ(Plan(4, {.pipeline = 4}).DeviceMemoryMb(), (std::vector<int>{288, 160, 160, 288}));
}

TEST(GroupPlan, FactoredAxesFormTheirOwnGroups) {
  Grids grids = MakeGrids(8, {.context = 4});
  grids.dense.Factor("cp", {"ulysses", 2}, "ring");
  auto specs = TrainingGroups({});
  specs.push_back({.name = "ulysses", .axes = {"ulysses"}, .purpose = "heads"});
  EXPECT_EQ(GroupPlan(grids, specs).Members("ulysses", 3), (RankList{2, 3}));
  specs.push_back(specs.back());
  EXPECT_EQ(Refusal([&] { GroupPlan(grids, specs); }), "group ulysses is planned twice");
}

TEST(GroupPlan, Text) {
  EXPECT_EQ(Plan(4, {.pipeline = 4}).ToText(),
            "  group      axes         groups  size  memory MB  members\n"
            "  world      tp cp dp pp       1     4     2 x 16  [0-3]\n"
            "  tp         tp                4     1          -  [0][1][2][3]\n"
            "  cp         cp                4     1          -  [0][1][2][3]\n"
            "  tp-cp      tp cp             4     1          -  [0][1][2][3]\n"
            "  etp        etp               4     1          -  [0][1][2][3]\n"
            "  ep         ep                4     1          -  [0][1][2][3]\n"
            "  etp-ep     etp ep            4     1          -  [0][1][2][3]\n"
            "  pp         pp                1     4     2 x 64  [0-3]\n"
            "  embedding  pp                1     2     2 x 64  [0,3]\n"
            "  dp-cp      cp dp             4     1          -  [0][1][2][3]\n"
            "  edp        edp               4     1          -  [0][1][2][3]\n"
            "  communicators take 160 to 288 MB of device memory per rank\n");
}

TEST(GroupPlan, ManyGroupsAreCutShort) {
  const std::string text = Plan(64, {}).ToText();
  EXPECT_NE(text.find("[14][15] … and 48 more\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace trireme
