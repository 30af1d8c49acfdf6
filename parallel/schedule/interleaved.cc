// Interleaved 1F1B: several stages per rank, round robin, which shrinks the bubble to
// (ranks - 1) / (virtual stages * micro batches + ranks - 1). Micro batches pass the chunks in groups of at
// least `ranks`, which fills the pipeline; fewer than that form one small group, with a larger bubble.
#include <algorithm>

#include "core/base/error.h"
#include "parallel/schedule/order_builder.h"
#include "parallel/schedule/schedule.h"

namespace trireme {
namespace {

// As even as possible, larger ones first: a group larger than the first would need forwards for which the
// first group's warm-up leaves no room.
std::vector<int> GroupSizes(int ranks, int micro_batches) {
  const int groups = std::max(1, micro_batches / ranks);
  std::vector<int> sizes(groups, micro_batches / groups);
  for (int i = 0; i < micro_batches % groups; ++i) ++sizes[i];
  return sizes;
}

// The chunk of every forward, in order; the same on each rank. Backwards visit the chunks in reverse.
std::vector<int> ChunkOrder(const std::vector<int>& groups, int chunks) {
  std::vector<int> order;
  for (int size : groups) {
    for (int chunk = 0; chunk < chunks; ++chunk) order.insert(order.end(), size, chunk);
  }
  return order;
}

}  // namespace

ComputeOrder Interleaved(const PipelineShape& shape) {
  const int chunks = shape.virtual_stages;
  if (chunks < 2) {
    throw InputError("schedule interleaved with virtual_stages = ", chunks,
                     "; wanted at least 2, or write schedule: 1f1b");
  }
  ComputeOrder order{PlaceStages(PlacementKind::kInterleaved, shape.ranks, chunks), shape.micro_batches, {}};
  const std::vector<int> groups = GroupSizes(shape.ranks, shape.micro_batches);
  const std::vector<int> chunk_of = ChunkOrder(groups, chunks);
  const int total = static_cast<int>(chunk_of.size());
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const int warmup = std::min(total, 2 * (shape.ranks - 1 - rank) + (chunks - 1) * groups.front());
    OrderBuilder builder(chunks);
    const auto backward = [&](int i) { builder.Backward(chunks - 1 - chunk_of[i]); };
    for (int i = 0; i < warmup; ++i) builder.Forward(chunk_of[i]);
    for (int i = warmup; i < total; ++i) {
      builder.Forward(chunk_of[i]);
      backward(i - warmup);
    }
    for (int i = total - warmup; i < total; ++i) backward(i);
    order.ranks.push_back(builder.Take());
  }
  return order;
}

}  // namespace trireme
