#include "parallel/layers/reduce_gradients.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

bool IsPartOverTensorAxis(const Placement& placement) {
  const AxisNames axes = placement.GradientSumAxes();
  return std::find(axes.begin(), axes.end(), "tp") != axes.end();
}

// `block.ranks` neighbours hold the same rows. Each adds to the place of its neighbourhood in a buffer of all
// of them, which the whole group sums: no communicator of the neighbours is needed.
void SumShared(const at::Tensor& gradient, const SharedBlock& block, Communicator& tensor) {
  const at::Tensor rows = gradient.narrow(block.dim, block.local_offset, block.local_size);
  std::vector<int64_t> shape = rows.sizes().vec();
  shape.insert(shape.begin(), tensor.size() / block.ranks);
  const at::Tensor places = at::zeros(shape, gradient.options());
  places[tensor.rank() / block.ranks].copy_(rows);
  AllReduce(places, tensor);
  rows.copy_(places[tensor.rank() / block.ranks]);
}

}  // namespace

void ReduceGradients(const Weights& weights, Communicator& data, Communicator& tensor) {
  for (const Weights::Entry& entry : weights.entries()) {
    if (!entry.weight.trained()) continue;
    const at::Tensor& gradient = entry.weight.gradient;
    AllReduce(gradient, data);
    if (IsPartOverTensorAxis(entry.placement)) AllReduce(gradient, tensor);
    for (const SharedBlock& block : entry.placement.SharedBlocks()) SumShared(gradient, block, tensor);
  }
}

}  // namespace trireme
