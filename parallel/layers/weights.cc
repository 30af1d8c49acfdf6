#include "parallel/layers/weights.h"

#include <utility>

#include "core/base/error.h"

namespace trireme {

Weights::Weights(const LayerGraph& graph, const std::vector<Layer>& layers, const Grids& grids,
                 const TensorSplit& split) {
  for (const Layer& layer : layers) {
    by_layer_[layer.name];  // also for a layer without weights of its own
    for (Parameter& parameter : ParametersOf(graph, layer, split)) {
      Placement placement(parameter.declaration, grids);
      Weight weight{.name = parameter.declaration.name, .value = {}, .gradient = {}};
      entries_.push_back({std::move(parameter), std::move(placement), std::move(weight)});
      by_layer_[layer.name].push_back(&entries_.back());
      by_name_[entries_.back().weight.name] = &entries_.back();
    }
  }
}

std::vector<Weights::Entry*> Weights::EntriesOf(const std::string& layer) {
  const auto found = by_layer_.find(layer);
  TRIREME_CHECK(found != by_layer_.end()) << "no layer " << layer << " on this rank";
  return found->second;
}

const Weights::Entry* Weights::FindEntry(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

const Weight* Weights::FindOrNull(const std::string& name) const {
  const Entry* entry = FindEntry(name);
  return entry == nullptr ? nullptr : &entry->weight;
}

const Weight& Weights::Find(const std::string& name) const {
  const Weight* weight = FindOrNull(name);
  TRIREME_CHECK(weight != nullptr) << "no weight " << name << " on this rank";
  return *weight;
}

}  // namespace trireme
