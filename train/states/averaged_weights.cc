#include "train/states/averaged_weights.h"

#include "checkpoint/manifest.h"
#include "core/base/error.h"
#include "parallel/graph/parameters.h"
#include "parallel/sharding/optimizers.h"

namespace trireme {

AveragedWeights::AveragedWeights(const HfDirectory& checkpoint, const LayerGraph& graph) : store_(*checkpoint.store()) {
  for (const Layer& layer : graph.layers) {
    for (const Parameter& parameter : ParametersOf(graph, layer, {.size = 1})) {
      for (const HfTensor& tensor : parameter.hf) {
        for (const std::string& copy : tensor.repeated) name_of_[copy] = tensor.name;
      }
    }
  }
}

std::string AveragedWeights::KeyOf(const std::string& name) const {
  const auto copy = name_of_.find(name);
  return Concat(kAveraged, "/", copy == name_of_.end() ? name : copy->second);
}

bool AveragedWeights::Changes(const std::string& name) const { return store_.FindOrNull(KeyOf(name)) != nullptr; }

void AveragedWeights::Apply(const std::string& name, std::vector<float>& values) const {
  const checkpoint::Tensor& average = store_.Find(KeyOf(name));
  TRIREME_CHECK(DTypeFromName(average.dtype()) == DType::kFp32 && Elements(ShapeOf(average)) == std::ssize(values))
      << average.key() << " does not fit its weight";
  store_.ReadWhole(average, reinterpret_cast<std::byte*>(values.data()));
}

}  // namespace trireme
