// Every placement is a bijection between stages and sites, with the specified neighbours.
#include "parallel/schedule/placement.h"

#include <gtest/gtest.h>

#include <set>

#include "core/base/error.h"

namespace trireme {
namespace {

TEST(Placement, EveryStageLivesOnOneSite) {
  for (const auto& [kind, chunks] : {std::pair{PlacementKind::kStraight, 1},
                                     {PlacementKind::kInterleaved, 1},
                                     {PlacementKind::kInterleaved, 4},
                                     {PlacementKind::kV, 2}}) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      const StagePlacement placement = PlaceStages(kind, ranks, chunks);
      std::set<std::pair<int, int>> sites;
      for (int stage = 0; stage < placement.stages(); ++stage) {
        const StageSite site = placement.SiteOf(stage);
        EXPECT_EQ(placement.StageAt(site.rank, site.chunk), stage);
        sites.insert({site.rank, site.chunk});
      }
      EXPECT_EQ(sites.size(), static_cast<size_t>(ranks * chunks));
    }
  }
}

TEST(Placement, RoundRobinAndV) {
  const StagePlacement interleaved = PlaceStages(PlacementKind::kInterleaved, 4, 2);
  EXPECT_EQ(interleaved.SiteOf(5), (StageSite{1, 1}));
  const StagePlacement v = PlaceStages(PlacementKind::kV, 4, 2);
  EXPECT_EQ(v.SiteOf(3), (StageSite{3, 0}));
  EXPECT_EQ(v.SiteOf(4), (StageSite{3, 1}));  // the turning point needs no message
  EXPECT_EQ(v.SiteOf(7), (StageSite{0, 1}));  // loss and embedding meet on rank 0
}

TEST(Placement, Prints) {
  EXPECT_EQ(PlaceStages(PlacementKind::kV, 2, 2).ToText(), "rank 0: stages 0 3\nrank 1: stages 1 2\n");
  EXPECT_EQ(PlaceStages(PlacementKind::kStraight, 1, 1).ToText(), "rank 0: stage 0\n");
}

TEST(Placement, RefusesWhatTheKindDoesNotHave) {
  EXPECT_THROW(PlaceStages(PlacementKind::kStraight, 4, 2), Error);
  EXPECT_THROW(PlaceStages(PlacementKind::kV, 4, 1), Error);
  EXPECT_THROW(PlaceStages(PlacementKind::kV, 0, 2), Error);
  EXPECT_THROW(PlaceStages(PlacementKind::kInterleaved, 2, 0), Error);
}

}  // namespace
}  // namespace trireme
