#include "parallel/graph/costs.h"

#include "parallel/graph/layer_block.h"

namespace trireme {

int64_t MatMulParameters(const Layer& layer) {
  int64_t sum = 0;
  for (const auto& block : BlocksOf(layer.spec)) sum += block->MatMulParameters();
  return sum;
}

double ForwardFlops(const Layer& layer, int64_t length) {
  const auto tokens = static_cast<double>(length);
  double attention = 0;
  for (const auto& block : BlocksOf(layer.spec)) attention += block->AttentionFlops(tokens);
  return 2 * static_cast<double>(MatMulParameters(layer)) * tokens + attention;
}

namespace {

bool IsFrozen(const Layer& layer) { return layer.trained && layer.trained->empty(); }

// Passes over a layer, each as dear as the forward pass. before: whether a layer before it is trained.
double PassesOver(const Layer& layer, bool before) {
  if (!IsFrozen(layer)) return 3;
  return TowerOf(layer.spec) == nullptr || before || !layer.low_rank.empty() ? 2 : 1;
}

double ForwardFlops(const Layer& layer, const RowExtent& row) {
  double sum = 0;
  if (const TowerSpec* tower = TowerOf(layer.spec)) {
    for (const ImageGrid& image : row.images) {
      const double frame = static_cast<double>(image.height * image.width), frames = static_cast<double>(image.time);
      sum += 2 * static_cast<double>(MatMulParameters(layer) * image.tokens(tower->merge));
      for (const auto& block : BlocksOf(layer.spec)) sum += frames * block->FrameFlops(frame);
    }
  } else {
    for (const int64_t length : row.documents) sum += ForwardFlops(layer, length);
  }
  return sum;
}

}  // namespace

double ModelFlops(const LayerGraph& graph, int64_t rows, int64_t length) {
  double sum = 0;
  for (const Layer& layer : graph.layers) sum += (IsFrozen(layer) ? 2 : 3) * ForwardFlops(layer, length);
  return sum * static_cast<double>(rows);
}

double ModelFlops(const LayerGraph& graph, const RowExtent& row) {
  double sum = 0;
  bool trained = false;
  for (const Layer& layer : graph.layers) {
    sum += PassesOver(layer, trained) * ForwardFlops(layer, row);
    trained |= !IsFrozen(layer) || !layer.low_rank.empty();
  }
  return sum;
}

}  // namespace trireme
