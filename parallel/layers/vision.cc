#include "parallel/layers/vision.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>

#include <string>

#include "ops/npu_call.h"
#include "parallel/layers/bias.h"
#include "parallel/layers/tiles.h"
#include "parallel/layers/tower_tables.h"
#include "parallel/layers/two_way_attention.h"
#include "parallel/layers/wide_norm.h"

namespace trireme {
namespace {

constexpr double kHeadNormEps = 1e-6;  // InternVL's, whatever its config says of the other norms

Projection::Place TowerPlace(const Layer& layer, const Weights& weights, const LayerOptions& options,
                             const TensorParallel& parallel) {
  return {.layer = layer,
          .weights = weights,
          .dropout = options.adapter_dropout,
          .tensor_rank = parallel.rank(),
          .tensor = &parallel.group};
}

// On an npu ATen's operator ignores which of the two is asked for; torch_npu's does not.
at::Tensor Gelu(const at::Tensor& x, bool tanh) {
  const std::string kind = tanh ? "tanh" : "none";
  return x.is_privateuseone() ? npu::Call("npu::npu_gelu", {x, kind})[0].toTensor() : at::gelu(x, kind);
}

}  // namespace

GeluMlp::GeluMlp(const std::string& role, const Projection::Place& place, const TensorParallel& parallel, bool tanh)
    : parallel_(parallel),
      tanh_(tanh),
      fc1_(place, role + "fc1"),
      fc2_(place, role + "fc2"),
      fc1_bias_(place.weights.FindOrNull(place.layer.name + "." + role + "fc1.bias")),
      fc2_bias_(place.weights.FindOrNull(place.layer.name + "." + role + "fc2.bias")) {}

at::Tensor GeluMlp::Forward(const at::Tensor& x, PassContext& pass) const {
  const at::Tensor units = fc1_.Forward(GatherToTensorRegion(x, parallel_), pass, fc1_bias_);
  return AddBias(ReduceFromTensorRegion(fc2_.Forward(Gelu(units, tanh_), pass), parallel_), fc2_bias_);
}

VisionLayer::VisionLayer(const Layer& layer, const Weights& weights, const TensorParallel& parallel,
                         const LayerOptions& options)
    : spec_(std::get<VisionSpec>(layer.spec)),
      parallel_{parallel.group, /*sequence=*/false},
      attention_norm_(weights, layer.name + ".attention_norm", spec_.norm_eps),
      mlp_norm_(weights, layer.name + ".mlp_norm", spec_.norm_eps),
      qkv_(TowerPlace(layer, weights, options, parallel_), "attention.qkv",
           {"attention.q", "attention.k", "attention.v"}),
      output_(TowerPlace(layer, weights, options, parallel_), "attention.output"),
      qkv_bias_(weights.FindOrNull(layer.name + ".attention.qkv.bias")),
      output_bias_(&weights.Find(layer.name + ".attention.output.bias")),
      query_norm_(weights.FindOrNull(layer.name + ".attention.q_norm.weight")),
      key_norm_(weights.FindOrNull(layer.name + ".attention.k_norm.weight")),
      attention_scale_(weights.FindOrNull(layer.name + ".attention_scale.weight")),
      mlp_scale_(weights.FindOrNull(layer.name + ".mlp_scale.weight")) {
  const Projection::Place place = TowerPlace(layer, weights, options, parallel_);
  if (spec_.gated) {
    gated_.emplace("mlp", place, parallel_, /*recompute=*/false);
  } else {
    gelu_.emplace("mlp.", place, parallel_, /*tanh=*/!spec_.gelu_erf);
  }
}

at::Tensor VisionLayer::Forward(const at::Tensor& x, PassContext& pass) const {
  if (x.size(0) == 0) return x.view_as(x);  // a micro batch without images
  const int64_t states = TowerTablesOf(pass, spec_.tower).plan.states, kept = x.size(0) - states;
  const AddedNorm entered = attention_norm_.Carry(kept > 0 ? x.narrow(0, 0, states) : x);
  const AddedNorm attended =
      mlp_norm_.Add(entered.sum, LayerScale(Attention(entered.normalised, pass), attention_scale_));
  const at::Tensor y = attended.sum + LayerScale(Mlp(attended.normalised, pass), mlp_scale_);
  std::vector<at::Tensor> parts = {y};
  if (kept > 0) parts.push_back(x.narrow(0, states, kept));
  if (spec_.tapped) parts.push_back(y);
  return parts.size() == 1 ? y : at::cat(parts);
}

at::Tensor VisionLayer::Attention(const at::Tensor& x, PassContext& pass) const {
  const TowerTables& tables = TowerTablesOf(pass, spec_.tower);
  const at::Tensor qkv = qkv_.Forward(GatherToTensorRegion(x, parallel_), pass, qkv_bias_);
  const int64_t here = spec_.heads / parallel_.size();
  const HeadShape shape{
      .rows = 1, .length = x.size(0), .heads = here, .kv_heads = here, .head_dim = spec_.tower.head_dim};
  const Heads heads = SplitHeads(Normalised(qkv), shape, nullptr, nullptr, tables.rotary);
  const at::Tensor attended = TwoWayAttention(heads, spec_.windowed ? tables.plan.windows : tables.plan.frames);
  return AddBias(ReduceFromTensorRegion(output_.Forward(attended, pass), parallel_), output_bias_);
}

at::Tensor VisionLayer::Normalised(const at::Tensor& qkv) const {
  if (query_norm_ == nullptr) return qkv;
  const WideNorm wide{.width = spec_.heads * spec_.tower.head_dim, .copies = 1, .eps = kHeadNormEps};
  const auto parts = qkv.chunk(3, -1);
  return at::cat({WideRmsNorm(parts[0], *query_norm_, wide, &parallel_.group),
                  WideRmsNorm(parts[1], *key_norm_, wide, &parallel_.group), parts[2]},
                 -1);
}

at::Tensor VisionLayer::Mlp(const at::Tensor& x, PassContext& pass) const {
  return gated_ ? gated_->Forward(GatherToTensorRegion(x, parallel_), pass) : gelu_->Forward(x, pass);
}

MergerLayer::MergerLayer(const Layer& layer, const Weights& weights, const TensorParallel& parallel,
                         const LayerOptions& options)
    : spec_(std::get<MergerSpec>(layer.spec)),
      parallel_{parallel.group, /*sequence=*/false},
      kept_(options.kept_features) {
  const Projection::Place place = TowerPlace(layer, weights, options, parallel_);
  for (int64_t i = 0; i <= spec_.taps; ++i) {
    const std::string role = i == 0 ? "" : "tap" + std::to_string(i - 1) + ".";
    mergers_.push_back({AnyNorm(weights, layer.name + "." + role + "norm", spec_.norm_eps),
                        GeluMlp(role, place, parallel_, /*tanh=*/false)});
  }
}

at::Tensor MergerLayer::Forward(const at::Tensor& x, PassContext& pass) const {
  const ImageFacts& images = pass.input.images;
  const at::Tensor merged = Merged(x, pass);
  if (kept_ == nullptr || images.contents.empty()) return merged;
  std::vector<int64_t> tokens;
  for (const ImageGrid& grid : images.grids) tokens.push_back(grid.tokens(spec_.tower.merge));
  return kept_->Join(merged, TowerTablesOf(pass, spec_.tower).run, images.contents, tokens, 1 + spec_.taps);
}

at::Tensor MergerLayer::Merged(const at::Tensor& x, PassContext& pass) const {
  if (x.size(0) == 0) return x.reshape({0, spec_.outputs});
  const TowerTables& tables = TowerTablesOf(pass, spec_.tower);
  const int64_t states = tables.plan.states, joined = spec_.tower.hidden * spec_.tower.merge * spec_.tower.merge;
  std::vector<at::Tensor> features;
  for (size_t i = 0; i < mergers_.size(); ++i) {
    const at::Tensor own =
        PatchStates(mergers_.size() == 1 ? x : x.narrow(0, static_cast<int64_t>(i) * states, states), spec_.tower.tile);
    const at::Tensor normalised = i == 0 && !spec_.joins_first ? mergers_[i].norm.Forward(own).view({-1, joined})
                                                               : mergers_[i].norm.Forward(own.reshape({-1, joined}));
    const at::Tensor merged = mergers_[i].mlp.Forward(normalised, pass);
    features.push_back(spec_.tower.window > 0 ? merged.index_select(0, tables.token_order) : merged);
  }
  return features.size() == 1 ? features.front() : at::cat(features);
}

}  // namespace trireme
