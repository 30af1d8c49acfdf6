#include "train/plan/activations.h"

#include <algorithm>
#include <set>
#include <string>

#include "parallel/graph/parameters.h"

namespace trireme {
namespace {

SavedElements SavedOf(const Layer& layer, const ActivationShape& shape) {
  SavedElements saved;
  for (const auto& block : BlocksOf(layer.spec)) saved.Add(block->Saved(shape));
  return saved;
}

}  // namespace

int64_t SavedActivationBytes(const Layer& layer, Recompute recompute, const ActivationShape& shape) {
  const SavedElements saved = SavedOf(layer, shape);
  const int64_t elements = recompute == RECOMPUTE_FULL        ? saved.full
                           : recompute == RECOMPUTE_SELECTIVE ? saved.selective
                                                              : saved.none;
  return elements * shape.element_bytes;
}

int64_t RecomputedActivationBytes(const Layer& layer, Recompute recompute, const ActivationShape& shape) {
  const SavedElements saved = SavedOf(layer, shape);
  const int64_t elements = recompute == RECOMPUTE_FULL        ? saved.recomputed
                           : recompute == RECOMPUTE_SELECTIVE ? saved.none - saved.selective
                                                              : 0;
  return elements * shape.element_bytes;
}

int64_t AttentionStatisticsBytes(const Layer& layer, const ActivationShape& shape) {
  constexpr int64_t kHeadBytes = 4;  // per token
  const DecoderSpec* decoder = DecoderOf(layer.spec);
  if (decoder == nullptr) return 0;
  const int64_t heads = decoder->attention.heads;
  return heads / std::min(heads, shape.tensor) * shape.tokens * kHeadBytes;
}

int64_t LowRankBytes(const Layer& layer, const ActivationShape& shape) {
  constexpr int64_t kFp32Bytes = 4;
  const DecoderSpec* decoder = DecoderOf(layer.spec);
  std::set<std::string> counted;  // parts that are one module in the files have one adapter
  int64_t bytes = 0;
  for (const auto& [role, adapter] : layer.low_rank) {
    if (!counted.insert(layer.hf_names.at(role + ".weight")).second) continue;
    const bool of_expert = decoder != nullptr && decoder->experts && role.starts_with("experts.");
    const int64_t rows = of_expert ? shape.ExpertRows(decoder->experts->router.top_k) : shape.tokens;
    bytes += kFp32Bytes * adapter.rank * rows;
  }
  return bytes;
}

int64_t MagnitudeBytes(const LayerGraph& graph, const Layer& layer, const ActivationShape& shape) {
  if (!graph.adapter || !graph.adapter->dora) return 0;
  int64_t outputs = 0;
  for (const Parameter& parameter : ParametersOf(graph, layer, {.size = static_cast<int>(shape.tensor)})) {
    if (parameter.declaration.name.find(".lora_m.") == std::string::npos) continue;
    for (const Block& block : parameter.declaration.dims.front().blocks)
      outputs += (block.size + block.padding) / block.parts;
  }
  return outputs * shape.tokens * shape.element_bytes;
}

int64_t DeferredBytes(const Layer& layer, Recompute recompute, const ActivationShape& shape) {
  const SavedElements saved = SavedOf(layer, shape);
  return (recompute == RECOMPUTE_NONE ? saved.selective : saved.none) * shape.element_bytes;
}

int64_t ExpertTemporaryBytes(const Layer& layer, const ActivationShape& shape) {
  constexpr int64_t kMatrices = 10, kFp32Bytes = 4;
  const DecoderSpec* decoder = DecoderOf(layer.spec);
  if (decoder == nullptr || !decoder->experts) return 0;
  const int64_t rows = shape.ExpertRows(decoder->experts->router.top_k);
  return kMatrices * kFp32Bytes * rows * decoder->experts->ffn;
}

int64_t MlpTemporaryBytes(const Layer& layer, const ActivationShape& shape) {
  const DecoderSpec* decoder = DecoderOf(layer.spec);
  if (decoder == nullptr || decoder->experts) return 0;
  return 2 * (decoder->mlp.ffn / shape.tensor) * shape.tokens * shape.element_bytes;
}

int64_t LogitsBytes(const Layer& layer, const ActivationShape& shape) {
  int64_t bytes = 0;
  for (const auto& block : BlocksOf(layer.spec)) bytes += block->LogitsBytes(shape);
  return bytes;
}

}  // namespace trireme
