// Plays the V with actions of equal length. At each tick every rank takes what helps most: an input gradient,
// since another rank waits for it; then a forward; then a weight gradient, which nobody waits for. A stage s
// of S has at most S - s micro batches in flight, as in 1F1B: limits that shrink along the stages cannot
// block each other, and they add up to 2 * ranks + 1 live chunks per rank.
#include "parallel/schedule/zero_bubble_v.h"

#include <optional>

#include "parallel/schedule/order_builder.h"

namespace trireme {
namespace {

class Game {
 public:
  Game(const StagePlacement& placement, int micro_batches)
      : placement_(placement),
        micro_batches_(micro_batches),
        forwards_(placement.stages(), 0),
        gradients_(placement.stages(), 0),
        builders_(placement.ranks, OrderBuilder(placement.chunks)),
        alive_(placement.ranks, 0) {}

  ComputeOrder Play() {
    while (gradients_.front() < micro_batches_) Tick();
    ComputeOrder order{placement_, micro_batches_, {}};
    for (OrderBuilder& builder : builders_) {
      while (builder.waiting_weights() > 0) builder.OldestWeight();
      order.ranks.push_back(builder.Take());
    }
    return order;
  }

 private:
  // All ranks choose by what was done before the tick; only then do their choices count as done.
  void Tick() {
    std::vector<int> forwards = forwards_;
    std::vector<int> gradients = gradients_;
    for (int rank = 0; rank < placement_.ranks; ++rank) {
      OrderBuilder& builder = builders_[rank];
      const bool full = alive_[rank] > 2 * placement_.ranks;
      if (const std::optional<int> chunk = GradientReady(rank)) {
        builder.BackwardInput(*chunk);
        ++gradients[placement_.StageAt(rank, *chunk)];
      } else if (const std::optional<int> chunk = ForwardReady(rank); chunk && !full) {
        builder.Forward(*chunk);
        ++forwards[placement_.StageAt(rank, *chunk)];
        ++alive_[rank];
      } else if (builder.waiting_weights() > 0) {
        builder.OldestWeight();
        --alive_[rank];
      }
    }
    forwards_ = std::move(forwards);
    gradients_ = std::move(gradients);
  }

  // The later chunk first in both: it is closer to the turn, or to freeing its activations.
  std::optional<int> GradientReady(int rank) const {
    for (int chunk = placement_.chunks - 1; chunk >= 0; --chunk) {
      const int stage = placement_.StageAt(rank, chunk);
      const int come = placement_.IsLast(stage) ? forwards_[stage] : gradients_[stage + 1];
      if (gradients_[stage] < come) return chunk;
    }
    return std::nullopt;
  }

  std::optional<int> ForwardReady(int rank) const {
    for (int chunk = placement_.chunks - 1; chunk >= 0; --chunk) {
      const int stage = placement_.StageAt(rank, chunk);
      const int come = placement_.IsFirst(stage) ? micro_batches_ : forwards_[stage - 1];
      const int limit = gradients_[stage] + placement_.stages() - stage;
      if (forwards_[stage] < come && forwards_[stage] < limit) return chunk;
    }
    return std::nullopt;
  }

  StagePlacement placement_;
  int micro_batches_;
  std::vector<int> forwards_;   // [stages] ended so far
  std::vector<int> gradients_;  // [stages] input gradients ended so far
  std::vector<OrderBuilder> builders_;
  std::vector<int> alive_;  // [ranks] chunks between their forward and their weight gradient
};

}  // namespace

ComputeOrder ZeroBubbleV(int ranks, int micro_batches) {
  return Game(PlaceStages(PlacementKind::kV, ranks, 2), micro_batches).Play();
}

}  // namespace trireme
