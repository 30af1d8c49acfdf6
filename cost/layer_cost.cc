#include "cost/layer_cost.h"

#include <algorithm>
#include <cmath>

namespace trireme {
namespace {

constexpr double kEagerKernels = 3;  // bytes of separate kernels over those of fused ones
// Bytes per attention score where all of them are in memory: written, softmax, dropout with its mask, read.
constexpr double kScoreBytesForward = 11, kScoreBytesBackward = 13;
constexpr double kUnfusedEfficiency = 0.5;  // of batched products with a head's few columns

double Half(double size, double half) { return size / (size + half); }

double AttentionFlopsOf(const Layer& layer, const LayerLayout& layout) {
  const auto length = static_cast<double>(layout.length);
  double flops = 0;
  if (TowerOf(layer.spec) != nullptr) {
    for (const auto& block : BlocksOf(layer.spec)) flops += block->FrameFlops(2 * length);
    return flops * layout.micro_batch / layout.tensor;
  }
  for (const auto& block : BlocksOf(layer.spec)) flops += block->AttentionFlops(length);
  return flops * layout.micro_batch / (layout.tensor * layout.context);
}

// Elements of a token's keys and values on a rank, and of its queries.
double KeysOf(const AttentionSpec& attention, int tensor) {
  const auto heads = static_cast<double>(attention.heads) / tensor;
  if (attention.latent) return heads * static_cast<double>(attention.latent->head_dim() + attention.latent->value_dim);
  const auto shared = static_cast<double>(std::max<int64_t>(attention.kv_heads / tensor, 1));
  return 2 * shared * static_cast<double>(attention.head_dim);
}

double QueriesOf(const AttentionSpec& attention, int tensor) {
  const int64_t width = attention.latent ? attention.latent->head_dim() : attention.head_dim;
  return static_cast<double>(attention.heads * width) / tensor;
}

bool HasScores(const Layer& layer) {
  const DecoderSpec* decoder = DecoderOf(layer.spec);
  return decoder != nullptr && !decoder->attention.delta;
}

}  // namespace

void PassParts::Add(const PassParts& other, double times) {
  products += times * other.products;
  attention += times * other.attention;
  rest += times * other.rest;
  tensor += times * other.tensor;
  context += times * other.context;
  expert += times * other.expert;
}

double LayerPricer::ProductSeconds(double m, double n, double k, double count, bool fp8) const {
  if (m <= 0 || n <= 0 || k <= 0) return 0;
  const ProductRates& rates = device_.products;
  const double waves = count * std::ceil(m / rates.tile_m) * std::ceil(n / rates.tile_n) / rates.cores;
  const double peak =
      1e12 * (fp8 ? device_.fp8_tflops * device_.fp8_efficiency : device_.peak_tflops * rates.efficiency);
  const double reached =
      peak * Half(m, rates.m_half) * Half(n, rates.n_half) * Half(k, rates.k_half) * waves / std::ceil(waves);
  const double bytes = 2 * (m * n + n * k + m * k) * count;
  return std::max(2 * m * n * k * count / reached, bytes / (device_.memory_gbs * 1e9));
}

ActivationShape LayerPricer::ShapeOf(const LayerLayout& layout) const {
  return {.tokens = (layout.micro_batch * layout.length + layout.context - 1) / layout.context,
          .tensor = layout.tensor,
          .sequence = layout.sequence,
          .expert_tensor = layout.expert_tensor,
          .element_bytes = static_cast<int64_t>(layout.element_bytes)};
}

// Of one product: tokens, or of experts the rows that each gets.
double LayerPricer::RowsOf(const Product& product, const Layer& layer, const LayerLayout& layout) const {
  const ActivationShape shape = ShapeOf(layout);
  switch (product.rows) {
    case Product::Rows::kTokens:
      return static_cast<double>(shape.tokens);
    case Product::Rows::kTokensBetween:
      return static_cast<double>((shape.tokens + shape.tensor - 1) / shape.tensor);
    case Product::Rows::kPatches: {  // half of the tokens are taken to be of images, as where stages are balanced
      const auto merge = static_cast<double>(TowerOf(layer.spec)->merge);
      return static_cast<double>(shape.tokens * layout.context) / 2 * merge * merge;
    }
    case Product::Rows::kExperts:
      break;
  }
  const int64_t top_k = DecoderOf(layer.spec)->experts->router.top_k;
  const auto arriving = static_cast<double>(top_k * ((shape.tokens + shape.tensor - 1) / shape.tensor));
  return arriving * layout.expert_tensor * assumptions_.imbalance / static_cast<double>(product.count);
}

void LayerPricer::AddProducts(const Layer& layer, const LayerWork& work, const LayerLayout& layout,
                              LayerCost& cost) const {
  const bool fp8 = assumptions_.fp8 && device_.fp8_tflops > 0 && DecoderOf(layer.spec) != nullptr;
  for (const Product& product : work.products) {
    const double rows = RowsOf(product, layer, layout), count = static_cast<double>(product.count);
    const auto out = static_cast<double>(product.outputs), in = static_cast<double>(product.inputs);
    cost.forward.products += ProductSeconds(rows, out, in, count, fp8);
    cost.input.products += ProductSeconds(rows, in, out, count, fp8);
    if (product.trained) cost.weight.products += ProductSeconds(out, in, rows, count, fp8);
    const double memory = device_.memory_gbs * 1e9;  // a sum is read before it is written
    if (product.adds_outputs) cost.forward.products += rows * out * count * layout.element_bytes / memory;
    if (product.adds_inputs) cost.input.products += rows * in * count * layout.element_bytes / memory;
    const double decoded = product.packed_bytes > 0 ? out * in * count * (product.packed_bytes + 4) : 0;
    cost.forward.rest += decoded / (device_.memory_gbs * 1e9 * device_.rest_efficiency);
    cost.input.rest += decoded / (device_.memory_gbs * 1e9 * device_.rest_efficiency);
  }
}

void LayerPricer::AddAttention(const Layer& layer, const LayerLayout& layout, LayerCost& cost) const {
  const double flops = AttentionFlopsOf(layer, layout), peak = device_.peak_tflops * 1e12;
  if (flops == 0) return;
  if (!assumptions_.fused_attention && HasScores(layer)) {
    const AttentionSpec& attention = DecoderOf(layer.spec)->attention;
    const auto length = static_cast<double>(layout.length);
    const double scores =
        static_cast<double>(attention.heads) / layout.tensor * length * length / layout.context * layout.micro_batch;
    const double rate = device_.memory_gbs * 1e9 * device_.rest_efficiency,
                 matmuls = 2 * flops / (peak * kUnfusedEfficiency);
    cost.forward.attention += matmuls + kScoreBytesForward * scores / rate;
    cost.input.attention += 2 * matmuls + kScoreBytesBackward * scores / rate;
    return;
  }
  const int ring = layout.context / layout.ulysses;
  const double reached = Half(static_cast<double>(layout.length) / ring, device_.attention.length_half);
  cost.forward.attention += flops / (peak * device_.attention.forward * reached);
  cost.input.attention += 2.5 * flops / (peak * device_.attention.backward * reached);
}

// A ring's messages pass beside the attention of the block before; Ulysses exchanges heads for sequence around it.
void LayerPricer::AddContext(const Layer& layer, const LayerLayout& layout, LayerCost& cost) const {
  if (layout.context == 1 || !HasScores(layer)) return;
  const AttentionSpec& attention = DecoderOf(layer.spec)->attention;
  const double tokens = static_cast<double>(ShapeOf(layout).tokens), bytes = layout.element_bytes;
  const int ring = layout.context / layout.ulysses;
  const double keys = tokens * layout.ulysses * KeysOf(attention, layout.tensor) / layout.ulysses * bytes;
  if (ring > 1) {
    const GroupShape group{ring, layout.tensor * layout.ulysses};
    const double there = links_.Message(group, keys), back = links_.Message(group, 2 * keys);
    cost.forward.context += (ring - 1) * std::max(0.0, there - cost.forward.attention / ring);
    cost.input.context += (ring - 1) * std::max(0.0, back - cost.input.attention / ring);
  }
  if (layout.ulysses > 1) {
    const GroupShape group{layout.ulysses, layout.tensor};
    const double all = tokens * (KeysOf(attention, layout.tensor) + 2 * QueriesOf(attention, layout.tensor)) * bytes;
    cost.forward.context += links_.AllToAll(group, all);
    cost.input.context += links_.AllToAll(group, all);
  }
}

// Around each block: a gather of its input and a reduce-scatter of its output, or one all-reduce; their adjoints
// backward.
void LayerPricer::AddTensor(const Layer& layer, const LayerWork& work, const LayerLayout& layout,
                            LayerCost& cost) const {
  if (layout.tensor == 1) return;
  const GroupShape group{layout.tensor, 1};
  const auto hidden = [&]() -> double {
    if (const DecoderSpec* decoder = DecoderOf(layer.spec)) return static_cast<double>(decoder->attention.hidden);
    if (const TowerSpec* tower = TowerOf(layer.spec)) return static_cast<double>(tower->hidden);
    if (const auto* head = std::get_if<HeadSpec>(&layer.spec)) return static_cast<double>(head->hidden);
    return static_cast<double>(std::get<EmbeddingSpec>(layer.spec).hidden);
  }();
  const double bytes = hidden * static_cast<double>(ShapeOf(layout).tokens) * layout.element_bytes;
  const double one_way = links_.AllGather(group, bytes) * (1 - assumptions_.tensor_overlap);
  const double blocks = work.has_tensor_blocks ? (work.mlp_is_split ? 2 : 1) : 0.5;
  cost.forward.tensor += 2 * blocks * one_way;
  cost.input.tensor += 2 * blocks * one_way;
}

// Tokens travel to the ranks of their experts and back, and their gradients again.
void LayerPricer::AddExperts(const Layer& layer, const LayerLayout& layout, LayerCost& cost) const {
  const DecoderSpec* decoder = DecoderOf(layer.spec);
  if (decoder == nullptr || !decoder->experts) return;
  const ActivationShape shape = ShapeOf(layout);
  const double rows =
      static_cast<double>(decoder->experts->router.top_k * ((shape.tokens + shape.tensor - 1) / shape.tensor));
  const double bytes =
      rows * static_cast<double>(decoder->experts->hidden) * layout.element_bytes * assumptions_.imbalance;
  const GroupShape experts{layout.expert, layout.expert_tensor}, sharers{layout.expert_tensor, 1};
  const double exchange =
      links_.AllToAll(experts, bytes / device_.exchange_efficiency) * (1 - assumptions_.expert_overlap);
  const double gather = links_.AllGather(sharers, bytes * layout.expert_tensor / device_.exchange_efficiency);
  cost.forward.expert += 2 * (exchange + gather);
  cost.input.expert += 2 * (exchange + gather);
}

LayerCost LayerPricer::Price(const Layer& layer, const LayerWork& work, const LayerLayout& layout, Recompute recompute,
                             bool differentiated) const {
  LayerCost cost;
  AddProducts(layer, work, layout, cost);
  AddAttention(layer, layout, cost);
  AddContext(layer, layout, cost);
  AddTensor(layer, work, layout, cost);
  AddExperts(layer, layout, cost);
  MovedElements moved;
  ActivationShape shape = ShapeOf(layout);
  for (const auto& block : BlocksOf(layer.spec)) moved.Add(block->Moved(shape));
  const double rate = device_.memory_gbs * 1e9 * device_.rest_efficiency;
  const double bytes = layout.element_bytes * (assumptions_.fused_rest ? 1 : kEagerKernels);
  const double gap = DecoderOf(layer.spec) != nullptr ? device_.layer_us * 1e-6 : 0;
  cost.forward.rest += static_cast<double>(moved.forward) * bytes / rate + gap;
  cost.input.rest += static_cast<double>(moved.backward) * bytes / rate + gap;
  if (!differentiated) {
    cost.input = {};
    cost.weight = {};
  } else if (recompute == RECOMPUTE_FULL && DecoderOf(layer.spec) != nullptr) {
    cost.input.Add(cost.forward);
  } else if (recompute == RECOMPUTE_SELECTIVE && DecoderOf(layer.spec) != nullptr) {
    cost.input.attention += cost.forward.attention;
    cost.input.rest += (cost.forward.rest - gap) / 2;
  }
  for (PassParts* parts : {&cost.forward, &cost.input, &cost.weight}) {
    PassParts scaled;
    scaled.Add(*parts, device_.residual);
    *parts = scaled;
  }
  return cost;
}

}  // namespace trireme
