// Zero bubble, the handcrafted schedule with the memory of 1F1B (ZB-H1): 1F1B with the backward split in two.
// The input gradient is sent on at once; rank r defers r weight gradients and computes them where 1F1B would
// idle. Every rank has at most `ranks` live micro batches, like rank 0 under 1F1B; with actions of equal
// length the bubble is a third of that of 1F1B.
#include <algorithm>

#include "core/base/error.h"
#include "parallel/schedule/order_builder.h"
#include "parallel/schedule/schedule.h"

namespace trireme {

ComputeOrder ZeroBubble(const PipelineShape& shape) {
  if (shape.virtual_stages != 1) {
    throw InputError("schedule zero_bubble with virtual_stages = ", shape.virtual_stages,
                     "; it has one stage per rank: write virtual_stages: 1 or schedule: dualpipev");
  }
  ComputeOrder order{PlaceStages(PlacementKind::kStraight, shape.ranks, 1), shape.micro_batches, {}};
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const int warmup = std::min(shape.micro_batches, shape.ranks - 1 - rank);
    OrderBuilder builder(1);
    for (int i = 0; i < warmup; ++i) builder.Forward(0);
    for (int i = warmup; i < shape.micro_batches; ++i) {
      builder.Forward(0);
      builder.BackwardInput(0);
      if (builder.waiting_weights() > rank) builder.OldestWeight();
    }
    for (int i = 0; i < warmup; ++i) {
      builder.BackwardInput(0);
      builder.OldestWeight();
    }
    while (builder.waiting_weights() > 0) builder.OldestWeight();
    order.ranks.push_back(builder.Take());
  }
  return order;
}

}  // namespace trireme
