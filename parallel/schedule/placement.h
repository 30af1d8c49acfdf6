// Stage placement: which stage of the pipeline is on which rank, and as which of that rank's chunks. Does not
// decide which layers a stage holds (partition) or in which order stages run (schedules).
#pragma once

#include <string>

namespace trireme {

enum class PlacementKind {
  kStraight,     // one stage per rank: stage = rank
  kInterleaved,  // round robin: chunk c of rank r is stage c * ranks + r
  kV,            // down and up again: rank r holds stages r and 2 * ranks - 1 - r
};

// A chunk is one of the stages on a rank, counted from 0 in the order of the stages.
struct StageSite {
  int rank = 0;
  int chunk = 0;
  bool operator==(const StageSite&) const = default;
};

struct StagePlacement {
  PlacementKind kind = PlacementKind::kStraight;
  int ranks = 1;   // of the pipeline, not of the job
  int chunks = 1;  // stages on each rank

  int stages() const { return ranks * chunks; }
  int StageAt(int rank, int chunk) const;
  StageSite SiteOf(int stage) const;
  bool IsFirst(int stage) const { return stage == 0; }
  bool IsLast(int stage) const { return stage == stages() - 1; }
  // One line per rank: "rank 0: stages 0 7".
  std::string ToText() const;
};

// Refuses sizes that the kind does not support: straight has one chunk, a V has two.
StagePlacement PlaceStages(PlacementKind kind, int ranks, int chunks);

}  // namespace trireme
