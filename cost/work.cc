#include "cost/work.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/plan/placement.h"

namespace trireme {
namespace {

// The grid only has to divide: one rank for each part.
Grids GridsFor(const TensorSplit& split) {
  const int width = std::max(split.size, split.expert * split.expert_tensor);
  int world = width;
  while (world % split.size != 0 || world % (split.expert * split.expert_tensor) != 0) world += width;
  return MakeGrids(world, {.tensor = split.size, .expert = split.expert, .expert_tensor = split.expert_tensor});
}

bool IsLookup(const Parameter& parameter) { return parameter.declaration.name.ends_with("embedding.weight"); }

Product::Rows RowsOf(const Layer& layer, const ParameterDeclaration& declaration) {
  if (TowerOf(layer.spec) != nullptr) return Product::Rows::kPatches;
  if (declaration.grid == GridKind::kExpert) return Product::Rows::kExperts;
  return declaration.partial_gradient.empty() ? Product::Rows::kTokens : Product::Rows::kTokensBetween;
}

void AddProduct(const Layer& layer, const Parameter& parameter, const Shape& local, LayerWork& work) {
  if (local.size() < 2 || IsLookup(parameter) || parameter.declaration.name.find("norm") != std::string::npos) return;
  const bool stacked = parameter.declaration.grid == GridKind::kExpert && local.size() == 3;
  if (parameter.declaration.grid == GridKind::kExpert && !stacked) return;  // biases of experts
  int64_t inputs = 1;
  for (size_t dim = stacked ? 2 : 1; dim < local.size(); ++dim) inputs *= local[dim];
  work.products.push_back({.rows = RowsOf(layer, parameter.declaration),
                           .outputs = local[stacked ? 1 : 0],
                           .inputs = inputs,
                           .count = stacked ? local[0] : 1,
                           .trained = parameter.trained,
                           .adds_outputs = parameter.declaration.name.find(".lora_b") != std::string::npos,
                           .adds_inputs = parameter.declaration.name.ends_with(".lora_a"),
                           .packed_bytes = parameter.packed ? 0.6 : 0});
}

}  // namespace

LayerWork WorkOf(const LayerGraph& graph, const Layer& layer, const TensorSplit& split) {
  const Grids grids = GridsFor(split);
  LayerWork work;
  for (const Parameter& parameter : ParametersOf(graph, layer, split)) {
    const Shape local = Placement(parameter.declaration, grids).LocalShape();
    const bool of_experts = parameter.declaration.grid == GridKind::kExpert;
    (of_experts ? work.experts : work.dense) += Elements(local);
    if (parameter.trained) (of_experts ? work.trained_experts : work.trained_dense) += Elements(local);
    AddProduct(layer, parameter, local, work);
  }
  if (const auto* head = std::get_if<HeadSpec>(&layer.spec)) {
    const int64_t vocabulary = (head->vocabulary + split.size - 1) / split.size;
    if (head->tied) work.products.push_back({.outputs = vocabulary, .inputs = head->hidden});
    for (int64_t depth = 0; depth < head->mtp_depths; ++depth) {
      work.products.push_back({.outputs = vocabulary, .inputs = head->hidden});
    }
  }
  const DecoderSpec* decoder = DecoderOf(layer.spec);
  work.has_tensor_blocks = decoder != nullptr || std::holds_alternative<VisionSpec>(layer.spec);
  work.mlp_is_split = decoder == nullptr || !decoder->experts || decoder->experts->shared_ffn > 0;
  return work;
}

}  // namespace trireme
