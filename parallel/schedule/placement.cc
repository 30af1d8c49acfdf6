// Stage numbers run over the ranks once per chunk; in a V every second run is reversed.
#include "parallel/schedule/placement.h"

#include <sstream>

#include "core/base/error.h"

namespace trireme {

int StagePlacement::StageAt(int rank, int chunk) const {
  TRIREME_CHECK(rank >= 0 && rank < ranks && chunk >= 0 && chunk < chunks)
      << "rank " << rank << " of " << ranks << ", chunk " << chunk << " of " << chunks;
  const bool backwards = kind == PlacementKind::kV && chunk % 2 == 1;
  return chunk * ranks + (backwards ? ranks - 1 - rank : rank);
}

StageSite StagePlacement::SiteOf(int stage) const {
  TRIREME_CHECK(stage >= 0 && stage < stages()) << "stage " << stage << " of " << stages();
  const int chunk = stage / ranks;
  const bool backwards = kind == PlacementKind::kV && chunk % 2 == 1;
  const int position = stage % ranks;
  return {backwards ? ranks - 1 - position : position, chunk};
}

std::string StagePlacement::ToText() const {
  std::ostringstream text;
  for (int rank = 0; rank < ranks; ++rank) {
    text << "rank " << rank << ": " << (chunks == 1 ? "stage" : "stages");
    for (int chunk = 0; chunk < chunks; ++chunk) text << ' ' << StageAt(rank, chunk);
    text << '\n';
  }
  return text.str();
}

StagePlacement PlaceStages(PlacementKind kind, int ranks, int chunks) {
  if (ranks < 1) throw InputError("pipeline = ", ranks, "; wanted at least 1");
  if (chunks < 1) throw InputError("virtual_stages = ", chunks, "; wanted at least 1");
  if (kind == PlacementKind::kStraight && chunks != 1) {
    throw InputError("virtual_stages = ", chunks, " with one stage per rank; wanted 1");
  }
  if (kind == PlacementKind::kV && chunks != 2) {
    throw InputError("virtual_stages = ", chunks, " in a V of stages; wanted 2");
  }
  return {kind, ranks, chunks};
}

}  // namespace trireme
