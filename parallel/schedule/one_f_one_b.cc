// 1F1B: a rank starts with as many forwards as there are stages after it, then alternates one forward and one
// backward. Bubble (ranks - 1) / (micro batches + ranks - 1); rank r has ranks - r live micro batches.
#include <algorithm>

#include "core/base/error.h"
#include "parallel/schedule/order_builder.h"
#include "parallel/schedule/schedule.h"

namespace trireme {

ComputeOrder OneFOneB(const PipelineShape& shape) {
  if (shape.virtual_stages != 1) {
    throw InputError("schedule 1f1b with virtual_stages = ", shape.virtual_stages,
                     "; it has one stage per rank: write virtual_stages: 1 or schedule: interleaved");
  }
  ComputeOrder order{PlaceStages(PlacementKind::kStraight, shape.ranks, 1), shape.micro_batches, {}};
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const int warmup = std::min(shape.micro_batches, shape.ranks - 1 - rank);
    OrderBuilder builder(1);
    for (int i = 0; i < warmup; ++i) builder.Forward(0);
    for (int i = warmup; i < shape.micro_batches; ++i) {
      builder.Forward(0);
      builder.Backward(0);
    }
    for (int i = 0; i < warmup; ++i) builder.Backward(0);
    order.ranks.push_back(builder.Take());
  }
  return order;
}

}  // namespace trireme
