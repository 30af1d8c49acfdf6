#include "session/random_weights.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <optional>
#include <variant>

#include "core/base/random.h"
#include "session/pack_values.h"

namespace trireme {
namespace {

double Draw(const Initial& initial, const RandomStream& random, uint64_t place) {
  if (initial.kind == Initial::Kind::kNormal) return initial.deviation * random.Normal(place);
  return initial.deviation * (2 * random.Uniform(place) - 1);
}

// The box's elements in row-major order, in fp32.
at::Tensor RandomBox(const Box& box, const Shape& global_shape, const RandomStream& random, const Initial& initial) {
  at::Tensor values = at::empty(box.extent, at::kFloat);
  auto* first = values.data_ptr<float>();
  const Shape strides = RowMajorStrides(global_shape);
  const int64_t row = box.extent.back(), rows = box.elements() / row;
  at::parallel_for(0, rows, /*grain_size=*/16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      int64_t place = box.offset.back(), rest = r;  // global position of the row's first element
      for (size_t d = box.extent.size() - 1; d-- > 0; rest /= box.extent[d]) {
        place += (box.offset[d] + rest % box.extent[d]) * strides[d];
      }
      for (int64_t i = 0; i < row; ++i) {
        first[r * row + i] = static_cast<float>(Draw(initial, random, static_cast<uint64_t>(place + i)));
      }
    }
  });
  return values;
}

// nullopt: values are drawn.
std::optional<double> ConstantOf(const Initial& initial) {
  if (initial.kind == Initial::Kind::kOnes) return 1;
  if (initial.kind == Initial::Kind::kZeros) return 0;
  return initial.kind == Initial::Kind::kConstant ? std::optional(initial.deviation) : std::nullopt;
}

// If it is on this rank.
void ZeroRow(const Weights::Entry& entry, int64_t row, int rank) {
  for (const LocalBox& box : entry.placement.LocalBoxes(rank)) {
    const int64_t within = row - box.global.offset.front();
    if (within < 0 || within >= box.global.extent.front()) continue;
    entry.weight.value.select(0, box.local_offset.front() + within).zero_();
  }
}

}  // namespace

void FillRandomWeights(const std::vector<Weights::Entry*>& entries, int rank, uint64_t seed) {
  for (const Weights::Entry* entry : entries) {
    const Initial& initial = entry->parameter.initial;
    if (entry->weight.packed) {
      const RandomStream random(seed, entry->weight.name);
      PackValues(*entry, [&](const Box& box, const at::Tensor& local) {
        local.copy_(RandomBox(box, entry->placement.GlobalShape(), random, initial));
      });
      continue;
    }
    const at::Tensor& value = entry->weight.value;
    const std::optional<double> constant = ConstantOf(initial);
    value.fill_(constant.value_or(0));  // padding stays zero
    if (constant) continue;
    const RandomStream random(seed, entry->weight.name);
    for (const LocalBox& box : entry->placement.LocalBoxes(rank)) {
      at::Tensor part = value;
      for (size_t d = 0; d < box.local_offset.size(); ++d) {
        part = part.narrow(static_cast<int64_t>(d), box.local_offset[d], box.global.extent[d]);
      }
      part.copy_(RandomBox(box.global, entry->placement.GlobalShape(), random, initial));
    }
  }
}

void ZeroPaddingRow(const std::vector<Weights::Entry*>& entries, const LayerGraph& graph, int rank) {
  for (const Layer& layer : graph.layers) {
    const auto* embedding = std::get_if<EmbeddingSpec>(&layer.spec);
    if (embedding == nullptr || embedding->padding == kNoPadding) continue;
    for (const Weights::Entry* entry : entries) {
      if (entry->weight.name == layer.name + ".embedding.weight") ZeroRow(*entry, embedding->padding, rank);
    }
  }
}

}  // namespace trireme
