// Grids: the dense and the expert mesh over the same ranks, from the sizes a user chooses. Rejects, with the
// whole product in numbers, what does not fit the world.
#pragma once

#include <string>

#include "core/plan/mesh.h"

namespace trireme {

struct ParallelSizes {
  int tensor = 1;
  int pipeline = 1;
  int context = 1;
  int expert = 1;
  int expert_tensor = 1;
  int replicas = 1;  // of what data-parallel ranks shard
};

enum class GridKind { kDense, kExpert };

struct Grids {
  Mesh dense;   // tp, cp, dp, pp: rank = tp + TP (cp + CP (dp + DP pp))
  Mesh expert;  // etp, ep, edp, pp: rank = etp + ETP (ep + EP (edp + EDP pp))
  // With replicas dp = shard + SHARD replica, and edp = eshard + ESHARD ereplica.

  int world() const { return dense.world(); }
  const Mesh& Of(GridKind kind) const { return kind == GridKind::kDense ? dense : expert; }
};

// The axes over which data-parallel ranks shard.
AxisNames ShardAxes(const Mesh& mesh, GridKind kind);
int ShardRanks(const Grids& grids, GridKind kind);  // how many ranks that are

// Data parallel is what remains of the world, on either grid.
Grids MakeGrids(int world, const ParallelSizes& sizes);

// Both grids, then one line per rank with its coordinates on both.
std::string ToText(const Grids& grids);

}  // namespace trireme
