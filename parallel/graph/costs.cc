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

double ModelFlops(const LayerGraph& graph, int64_t rows, int64_t length) {
  double sum = 0;
  for (const Layer& layer : graph.layers) {
    const bool frozen = layer.trained && layer.trained->empty();
    sum += (frozen ? 2 : 3) * ForwardFlops(layer, length);
  }
  return sum * static_cast<double>(rows);
}

}  // namespace trireme
