#include "parallel/layers/vision.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/gelu.h>

#include <cmath>

#include "parallel/layers/bias.h"
#include "parallel/layers/tower_tables.h"
#include "parallel/layers/two_way_attention.h"

namespace trireme {
namespace {

Projection::Place TowerPlace(const Layer& layer, const Weights& weights, const LayerOptions& options,
                             const TensorParallel& parallel) {
  return {.layer = layer,
          .weights = weights,
          .dropout = options.adapter_dropout,
          .tensor_rank = parallel.rank(),
          .tensor = &parallel.group};
}

// torch_npu's own operator ignores which of the two GELUs is asked for: there both are written out.
at::Tensor Gelu(const at::Tensor& x, bool tanh) {
  constexpr double kSlope = 0.79788456080286535588, kCubic = 0.044715;  // sqrt(2 / pi)
  if (x.is_cpu() || x.is_cuda()) return at::gelu(x, tanh ? "tanh" : "none");
  if (tanh) return x * 0.5 * ((x + x * x * x * kCubic) * kSlope).tanh().add(1);
  return x * 0.5 * at::erf(x * M_SQRT1_2).add(1);
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
      qkv_(TowerPlace(layer, weights, options, parallel_), "attention.qkv", {"attention.q", "attention.k", "attention.v"}),
      output_(TowerPlace(layer, weights, options, parallel_), "attention.output"),
      qkv_bias_(&weights.Find(layer.name + ".attention.qkv.bias")),
      output_bias_(&weights.Find(layer.name + ".attention.output.bias")) {
  const Projection::Place place = TowerPlace(layer, weights, options, parallel_);
  if (spec_.gated) {
    gated_.emplace("mlp", place, parallel_, /*recompute=*/false);
  } else {
    gelu_.emplace("mlp.", place, parallel_, /*tanh=*/true);
  }
}

at::Tensor VisionLayer::Forward(const at::Tensor& x, PassContext& pass) const {
  if (x.size(0) == 0) return x.view_as(x);  // a micro batch without images
  const int64_t patches = TowerTablesOf(pass, spec_.tower).plan.patches(), kept = x.size(0) - patches;
  const at::Tensor entered = x.narrow(0, 0, patches);
  const at::Tensor attended = entered + Attention(attention_norm_.Forward(entered), pass);
  const at::Tensor y = attended + Mlp(mlp_norm_.Forward(attended), pass);
  std::vector<at::Tensor> parts = {y};
  if (kept > 0) parts.push_back(x.narrow(0, patches, kept));
  if (spec_.tapped) parts.push_back(y);
  return parts.size() == 1 ? y : at::cat(parts);
}

at::Tensor VisionLayer::Attention(const at::Tensor& x, PassContext& pass) const {
  const TowerTables& tables = TowerTablesOf(pass, spec_.tower);
  const at::Tensor qkv = qkv_.Forward(GatherToTensorRegion(x, parallel_), pass, qkv_bias_);
  const int64_t here = spec_.heads / parallel_.size();
  const HeadShape shape{
      .rows = 1, .length = x.size(0), .heads = here, .kv_heads = here, .head_dim = spec_.tower.head_dim};
  const Heads heads = SplitHeads(qkv, shape, nullptr, nullptr, tables.rotary);
  const at::Tensor attended = TwoWayAttention(heads, spec_.windowed ? tables.plan.windows : tables.plan.frames);
  return AddBias(ReduceFromTensorRegion(output_.Forward(attended, pass), parallel_), output_bias_);
}

at::Tensor VisionLayer::Mlp(const at::Tensor& x, PassContext& pass) const {
  return gated_ ? gated_->Forward(GatherToTensorRegion(x, parallel_), pass) : gelu_->Forward(x, pass);
}

MergerLayer::MergerLayer(const Layer& layer, const Weights& weights, const TensorParallel& parallel,
                         const LayerOptions& options)
    : spec_(std::get<MergerSpec>(layer.spec)), parallel_{parallel.group, /*sequence=*/false} {
  const Projection::Place place = TowerPlace(layer, weights, options, parallel_);
  for (int64_t i = 0; i <= spec_.taps; ++i) {
    const std::string role = i == 0 ? "" : "tap" + std::to_string(i - 1) + ".";
    mergers_.push_back({AnyNorm(weights, layer.name + "." + role + "norm", spec_.norm_eps),
                        GeluMlp(role, place, parallel_, /*tanh=*/false)});
  }
}

at::Tensor MergerLayer::Forward(const at::Tensor& x, PassContext& pass) const {
  if (x.size(0) == 0) return x.reshape({0, spec_.outputs});
  const TowerTables& tables = TowerTablesOf(pass, spec_.tower);
  const int64_t patches = tables.plan.patches(), joined = spec_.tower.hidden * spec_.tower.merge * spec_.tower.merge;
  std::vector<at::Tensor> features;
  for (size_t i = 0; i < mergers_.size(); ++i) {
    const at::Tensor own = x.narrow(0, static_cast<int64_t>(i) * patches, patches);
    const at::Tensor normalised = i == 0 ? mergers_[i].norm.Forward(own).view({-1, joined})
                                         : mergers_[i].norm.Forward(own.reshape({-1, joined}));
    const at::Tensor merged = mergers_[i].mlp.Forward(normalised, pass);
    features.push_back(spec_.tower.window > 0 ? merged.index_select(0, tables.token_order) : merged);
  }
  return features.size() == 1 ? features.front() : at::cat(features);
}

}  // namespace trireme
