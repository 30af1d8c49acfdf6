// DualPipeV: two stages per rank in a V, so that micro batches on their way down and up again meet on every
// rank and a forward always overlaps with a backward of the other chunk. Built in eight phases, for at least
// two micro batches per rank; with fewer, a zero-bubble table over the same V is used instead. Every rank has
// at most 2 * ranks + 1 live chunks.
#include "core/base/error.h"
#include "parallel/schedule/order_builder.h"
#include "parallel/schedule/schedule.h"
#include "parallel/schedule/zero_bubble_v.h"

namespace trireme {
namespace {

constexpr int kDown = 0;  // the chunk whose stages run from the first rank to the last
constexpr int kUp = 1;    // the chunk whose stages run back

// Up to the steady state: fill the V; the last phase already fills idle time with weight gradients.
void WarmUp(OrderBuilder& builder, int rank, int ranks) {
  const int behind = ranks - 1 - rank;
  for (int i = 0; i < 2 * behind; ++i) builder.Forward(kDown);
  for (int i = 0; i < rank + 1; ++i) {
    builder.Forward(kDown);
    builder.Forward(kUp);
  }
  for (int i = 0; i < behind; ++i) {
    builder.BackwardInput(kUp);
    builder.OldestWeight();
    builder.Forward(kUp);
  }
}

void Steady(OrderBuilder& builder, int rank, int ranks, int micro_batches) {
  for (int i = 0; i < micro_batches - 2 * ranks + rank + 1; ++i) {
    builder.Forward(kDown);
    builder.Backward(kUp);
    builder.Forward(kUp);
    builder.Backward(kDown);
  }
}

// Drain the V. The second half of the paired backwards defer their weight gradients to fill the later gaps.
void CoolDown(OrderBuilder& builder, int rank, int ranks) {
  const int behind = ranks - 1 - rank;
  for (int i = 0; i < behind; ++i) {
    builder.Backward(kUp);
    builder.Forward(kUp);
    builder.Backward(kDown);
  }
  for (int i = 0; i < 2 * (rank + 1); ++i) {
    const int chunk = i % 2 == 0 ? kUp : kDown;
    if (i <= rank) {
      builder.Backward(chunk);
    } else {
      builder.BackwardInput(chunk);
    }
  }
  for (int i = 0; i < behind; ++i) {
    builder.OldestWeight();
    builder.BackwardInput(kDown);
  }
  while (builder.waiting_weights() > 0) builder.OldestWeight();
}

}  // namespace

ComputeOrder DualPipeV(const PipelineShape& shape) {
  if (shape.virtual_stages != 1 && shape.virtual_stages != 2) {
    throw InputError("schedule dualpipev with virtual_stages = ", shape.virtual_stages,
                     "; it has two stages per rank: write virtual_stages: 2 or leave it out");
  }
  if (shape.micro_batches < 2 * shape.ranks) return ZeroBubbleV(shape.ranks, shape.micro_batches);
  ComputeOrder order{PlaceStages(PlacementKind::kV, shape.ranks, 2), shape.micro_batches, {}};
  for (int rank = 0; rank < shape.ranks; ++rank) {
    OrderBuilder builder(2);
    WarmUp(builder, rank, shape.ranks);
    Steady(builder, rank, shape.ranks, shape.micro_batches);
    CoolDown(builder, rank, shape.ranks);
    order.ranks.push_back(builder.Take());
  }
  return order;
}

}  // namespace trireme
