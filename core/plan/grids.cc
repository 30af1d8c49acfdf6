// The two factorisations of the world, and the checks.
#include "core/plan/grids.h"

#include <algorithm>
#include <cstdint>
#include <iomanip>
#include <sstream>
#include <vector>

#include "core/base/error.h"

namespace trireme {
namespace {

struct Factor {
  const char* name;
  int size;
};

int64_t CheckedProduct(int world, const std::vector<Factor>& factors) {
  std::string written, lower;
  int64_t product = 1;
  for (const Factor& factor : factors) {
    if (factor.size < 1) {
      throw InputError("parallel.", factor.name, " = ", factor.size, "; wanted at least 1");
    }
    // Sizes beyond the world cannot divide it; the cap keeps the product of three within 64 bits.
    if (factor.size > (1 << 20)) {
      throw InputError("parallel.", factor.name, " = ", factor.size, " is more than world ", world, "; lower parallel.",
                       factor.name);
    }
    product *= factor.size;
    written += Concat(written.empty() ? "" : " x ", factor.name, " ", factor.size);
    if (factor.size > 1) lower += Concat(lower.empty() ? "" : " or ", "parallel.", factor.name);
  }
  if (world % product != 0) {
    // A first try is often one process: say how several are started.
    const std::string start = world == 1 ? Concat(" (mpirun -n ", product, " build/trireme …, or scripts/run.sh)") : "";
    throw InputError("world ", world, " is not divisible by ", written, " = ", product, "; use a multiple of ", product,
                     " ranks", start, ", or lower ", lower);
  }
  return product;
}

void CheckReplicas(const char* what, int ranks, int replicas) {
  if (replicas >= 1 && ranks % replicas == 0) return;
  throw InputError("parallel.replicas = ", replicas, " does not divide the ", ranks, " ", what,
                   "; wanted a divisor of ", ranks);
}

}  // namespace

Grids MakeGrids(int world, const ParallelSizes& sizes) {
  if (world < 1) throw InputError("world ", world, " has no ranks; wanted at least 1");
  const int dense = static_cast<int>(
      CheckedProduct(world, {{"tensor", sizes.tensor}, {"pipeline", sizes.pipeline}, {"context", sizes.context}}));
  const int expert = static_cast<int>(CheckedProduct(
      world, {{"expert_tensor", sizes.expert_tensor}, {"expert", sizes.expert}, {"pipeline", sizes.pipeline}}));
  // pp is the slowest axis of both and has the same size, so the stages of the two grids are the same ranks.
  Grids grids{
      Mesh("dense grid", {{"tp", sizes.tensor}, {"cp", sizes.context}, {"dp", world / dense}, {"pp", sizes.pipeline}}),
      Mesh("expert grid",
           {{"etp", sizes.expert_tensor}, {"ep", sizes.expert}, {"edp", world / expert}, {"pp", sizes.pipeline}})};
  if (sizes.replicas == 1) return grids;
  CheckReplicas("data-parallel ranks", world / dense, sizes.replicas);
  CheckReplicas("data-parallel ranks of the experts", world / expert, sizes.replicas);
  grids.dense.Factor("dp", {"shard", world / dense / sizes.replicas}, "replica");
  grids.expert.Factor("edp", {"eshard", world / expert / sizes.replicas}, "ereplica");
  return grids;
}

AxisNames ShardAxes(const Mesh& mesh, GridKind kind) {
  if (kind == GridKind::kExpert) return {mesh.Has("eshard") ? "eshard" : "edp"};
  return {"cp", mesh.Has("shard") ? "shard" : "dp"};
}

int ShardRanks(const Grids& grids, GridKind kind) {
  int ranks = 1;
  for (const std::string& axis : ShardAxes(grids.Of(kind), kind)) ranks *= grids.Of(kind).Size(axis);
  return ranks;
}

std::string ToText(const Grids& grids) {
  constexpr int kMostRanks = 64;
  std::ostringstream text;
  text << grids.dense.ToText() << grids.expert.ToText() << "rank ";
  for (const Mesh* mesh : {&grids.dense, &grids.expert}) {
    for (const Axis& axis : mesh->axes()) text << std::setw(5) << axis.name;
    text << (mesh == &grids.dense ? " |" : "\n");
  }
  for (int rank = 0; rank < std::min(grids.world(), kMostRanks); ++rank) {
    text << std::setw(4) << rank << " ";
    for (const Mesh* mesh : {&grids.dense, &grids.expert}) {
      for (int coordinate : mesh->Coordinates(rank)) text << std::setw(5) << coordinate;
      text << (mesh == &grids.dense ? " |" : "\n");
    }
  }
  if (grids.world() > kMostRanks) text << "  … and " << grids.world() - kMostRanks << " more ranks\n";
  return text.str();
}

}  // namespace trireme
