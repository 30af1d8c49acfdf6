#include "train/whole_gradients.h"

#include <ATen/ATen.h>

#include <cmath>

#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

// What this rank owns of each file tensor, at its place in an otherwise empty whole.
class OwnedParts {
 public:
  OwnedParts(const Weights& weights, int rank) {
    for (const Weights::Entry& entry : weights.entries()) {
      if (!entry.weight.trained()) continue;
      for (const SliceCopy& copy : SliceCopies(entry.parameter, entry.placement, rank)) {
        if (copy.replica == 0) parts_[copy.source->name].push_back({copy, entry.weight.gradient});
      }
    }
  }

  at::Tensor Whole(const HfTensor& tensor) const {
    at::Tensor whole = at::zeros(tensor.shape, at::kFloat);
    const auto found = parts_.find(tensor.name);
    if (found == parts_.end()) return whole;
    for (const Part& part : found->second) {
      whole.as_strided(part.copy.extent, part.copy.file_strides, part.copy.file_offset)
          .copy_(part.gradient.as_strided(part.copy.extent, part.copy.local_strides, part.copy.local_offset));
    }
    return whole;
  }

 private:
  struct Part {
    SliceCopy copy;
    at::Tensor gradient;
  };
  std::map<std::string, std::vector<Part>> parts_;
};

}  // namespace

std::map<std::string, at::Tensor> GatherGradients(const LayerGraph& graph, const Weights& weights,
                                                  Communicator& world) {
  const OwnedParts owned(weights, world.rank());
  std::map<std::string, at::Tensor> gradients;
  for (const Layer& layer : graph.layers) {
    for (const Parameter& parameter : ParametersOf(graph, layer, {.size = 1})) {
      for (const HfTensor& tensor : parameter.hf) {
        const at::Tensor whole = owned.Whole(tensor);
        AllReduce(whole, world);  // every element has one owner: the sum puts the parts together
        if (world.rank() == 0) gradients[tensor.name] = whole;
      }
    }
  }
  return gradients;
}

double GlobalNorm(const std::map<std::string, at::Tensor>& gradients) {
  double squares = 0;
  for (const auto& [name, gradient] : gradients) {
    const double norm = gradient.to(at::kDouble).norm().item<double>();
    squares += norm * norm;
  }
  return std::sqrt(squares);
}

}  // namespace trireme
