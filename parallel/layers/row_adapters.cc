#include "parallel/layers/row_adapters.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace trireme {

std::optional<LowRankWeights> FindAdapters(const Layer& layer, const Weights& weights, const MatrixRole& role) {
  const std::string stem = role.layer + "." + role.matrix;
  const Weights::Entry* matrix = weights.FindEntry(stem + ".weight");
  LowRankWeights adapters{.a = weights.FindOrNull(stem + ".lora_a"), .blocks = {}};
  if (matrix == nullptr || adapters.a == nullptr) return std::nullopt;
  const std::vector<Dim>& dims = matrix->placement.declaration().dims;
  const std::vector<Block>& blocks = dims[dims.size() - 2].blocks;
  int64_t first_rank = 0, first_output = 0;
  for (size_t i = 0; i < role.parts.size(); ++i) {
    const int64_t outputs = (blocks[i].size + blocks[i].padding) / blocks[i].parts;
    const auto adapter = layer.low_rank.find(role.parts[i]);
    // Of parts that are one module in the files the first has the adapter of all.
    const Weight* b = weights.FindOrNull(stem + ".lora_b." + std::to_string(i));
    if (adapter != layer.low_rank.end() && b != nullptr) {
      adapters.blocks.push_back(
          {.b = b, .scale = adapter->second.scale, .first_rank = first_rank, .first_output = first_output});
      first_rank += adapter->second.rank;
    }
    first_output += outputs;
  }
  return adapters;
}

std::vector<MagnitudeBlock> FindMagnitudes(const Weights& weights, const MatrixRole& role) {
  const std::string stem = role.layer + "." + role.matrix;
  const std::vector<Dim>& dims = weights.FindEntry(stem + ".weight")->placement.declaration().dims;
  const std::vector<Block>& blocks = dims[dims.size() - 2].blocks;
  std::vector<MagnitudeBlock> magnitudes;
  int64_t first_output = 0;
  for (size_t i = 0; i < role.parts.size(); ++i) {
    const Weight* magnitude = weights.FindOrNull(stem + ".lora_m." + std::to_string(i));
    if (magnitude != nullptr) magnitudes.push_back({.magnitude = magnitude, .first_output = first_output});
    first_output += (blocks[i].size + blocks[i].padding) / blocks[i].parts;
  }
  return magnitudes;
}

AdapterWeights::AdapterWeights(const LayerGraph& graph, std::vector<Layer> layers, const Grids& grids,
                               const TensorSplit& split)
    : layers_(std::move(layers)), weights_(graph, layers_, grids, split) {
  for (const Layer& layer : graph.layers) {
    for (const auto& [role, adapter] : layer.low_rank) on_experts_ = on_experts_ || role.starts_with("experts.");
  }
}

std::vector<Weights::Entry*> AdapterWeights::entries() {
  std::vector<Weights::Entry*> added;
  for (Weights::Entry& entry : weights_.entries()) {
    if (entry.parameter.added) added.push_back(&entry);
  }
  return added;
}

const LowRankWeights* AdapterWeights::Find(const MatrixRole& role) const {
  const auto [found, fresh] = found_.try_emplace(role.layer + "." + role.matrix);
  if (fresh) {
    const auto layer = std::ranges::find(layers_, role.layer, &Layer::name);
    if (layer != layers_.end()) found->second = FindAdapters(*layer, weights_, role);
  }
  return found->second ? &*found->second : nullptr;
}

RowAdapters::RowAdapters(std::vector<const AdapterWeights*> adapters, const at::Tensor& adapter_of, at::Device device)
    : adapters(std::move(adapters)), adapter_of(adapter_of), rows(GroupByAdapter(adapter_of, device)) {
  for (const AdapterWeights* adapter : this->adapters) on_experts = on_experts || adapter->on_experts();
}

std::vector<const LowRankWeights*> RowAdapters::AdaptersOf(const MatrixRole& role) const {
  std::vector<const LowRankWeights*> found;
  for (const AdapterWeights* adapter : adapters) found.push_back(adapter->Find(role));
  return found;
}

}  // namespace trireme
