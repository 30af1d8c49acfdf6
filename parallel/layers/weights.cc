#include "parallel/layers/weights.h"

#include <ATen/ops/zeros.h>

#include <utility>

#include "core/base/error.h"

namespace trireme {

Weights::Weights(const LayerGraph& graph, const std::vector<Layer>& layers, const Grids& grids,
                 const TensorSplit& split, at::ScalarType type) {
  for (const Layer& layer : layers) {
    for (Parameter& parameter : ParametersOf(graph, layer, split)) {
      Placement placement(parameter.declaration, grids);
      const Shape shape = placement.LocalShape();
      Weight weight{parameter.declaration.name, at::zeros(shape, type), at::zeros(shape, at::kFloat)};
      entries_.push_back({std::move(parameter), std::move(placement), std::move(weight)});
      by_name_[entries_.back().weight.name] = &entries_.back().weight;
    }
  }
}

const Weight* Weights::FindOrNull(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

const Weight& Weights::Find(const std::string& name) const {
  const Weight* weight = FindOrNull(name);
  TRIREME_CHECK(weight != nullptr) << "no weight " << name << " on this rank";
  return *weight;
}

}  // namespace trireme
