#include "train/step/whole_gradients.h"

#include <ATen/ATen.h>

#include "checkpoint/memory_names.h"
#include "parallel/graph/parameters.h"
#include "parallel/tensor/collectives.h"
#include "session/tuning.h"

namespace trireme {
namespace {

at::Tensor InBox(at::Tensor whole, const Box& box) {
  for (size_t dim = 0; dim < box.offset.size(); ++dim) {
    whole = whole.narrow(static_cast<int64_t>(dim), box.offset[dim], box.extent[dim]);
  }
  return whole;
}

// Copies what this rank owns of the shard to its position in the full parameter.
void CopyOwned(const Shard& shard, const at::Tensor& whole) {
  for (const ShardBox& box : shard.boxes) {
    if (box.replica != 0) continue;
    const at::Tensor mine =
        at::from_blob(static_cast<float*>(shard.data) + box.offset, box.global.extent, shard.strides);
    InBox(whole, box.global).copy_(mine);
  }
}

at::Tensor InFile(const at::Tensor& whole, const HfTensor& tensor) {
  const at::Tensor part = InBox(whole, tensor.box);
  return (tensor.transposed ? part.transpose(-2, -1) : part).reshape(tensor.shape).contiguous();
}

}  // namespace

std::map<std::string, at::Tensor> GatherGradients(const LayerGraph& graph, const std::vector<Shard>& gradients,
                                                  Communicator& world, at::Device device) {
  std::map<std::string, const Shard*> mine;
  for (const Shard& shard : gradients) mine[shard.key] = &shard;
  const Grids alone = MakeGrids(1, {});
  const bool older = ExpertNamesOf(graph).older_names;  // in the model's files, not in adapters
  std::map<std::string, at::Tensor> files;
  for (const Layer& layer : graph.layers) {
    for (const Parameter& parameter : ParametersOf(graph, layer, {.size = 1})) {
      if (!parameter.trained) continue;
      at::Tensor whole = at::zeros(Placement(parameter.declaration, alone).GlobalShape(), at::kFloat);
      const auto found = mine.find("gradient/" + parameter.declaration.name);
      if (found != mine.end()) CopyOwned(*found->second, whole);
      whole = whole.to(device);
      AllReduce(whole, world);  // every element has one owner: the sum assembles the parts
      whole = whole.cpu();
      if (world.rank() != 0) continue;
      for (const HfTensor& tensor : parameter.hf) {
        files[graph.adapter ? kAdapterPrefix + (older ? NameInMemory(tensor.name) : tensor.name) : tensor.name] =
            InFile(whole, tensor);
      }
    }
  }
  return files;
}

}  // namespace trireme
