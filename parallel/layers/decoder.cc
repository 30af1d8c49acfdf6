#include "parallel/layers/decoder.h"

#include <algorithm>
#include <cmath>

#include "ops/router.h"
#include "parallel/context/context_attention.h"
#include "parallel/experts/token_share.h"
#include "parallel/layers/bias.h"

namespace trireme {

DecoderLayer::DecoderLayer(const Layer& layer, const Weights& weights, const LayerParallel& parallel,
                           const LayerOptions& options)
    : spec_(std::get<DecoderSpec>(layer.spec)),
      parallel_(parallel.tensor),
      context_(parallel.context),
      recompute_(options.recompute_selected),
      frequencies_(InverseFrequencies(spec_.attention.rope)),
      attention_norm_(weights.Find(layer.name + ".attention_norm.weight")),
      qkv_(weights.FindOrNull(layer.name + ".attention.qkv.weight")),
      qkv_bias_(weights.FindOrNull(layer.name + ".attention.qkv.bias")),
      query_norm_(weights.FindOrNull(layer.name + ".attention.q_norm.weight")),
      key_norm_(weights.FindOrNull(layer.name + ".attention.k_norm.weight")),
      output_(weights.Find(layer.name + ".attention.output.weight")),
      output_bias_(weights.FindOrNull(layer.name + ".attention.output.bias")),
      mlp_norm_(weights.Find(layer.name + ".mlp_norm.weight")) {
  if (spec_.attention.latent) latent_.emplace(spec_.attention, layer.name, weights, parallel);
  if (!spec_.experts) {
    mlp_.emplace(layer.name + ".mlp", weights, parallel_, recompute_);
    return;
  }
  if (spec_.experts->shared_ffn > 0) mlp_.emplace(layer.name + ".shared", weights, parallel_, recompute_);
  shared_gate_ = weights.FindOrNull(layer.name + ".shared_gate.weight");
  const ExpertWeights own{.router = weights.Find(layer.name + ".router.weight"),
                          .gate_up = weights.Find(layer.name + ".experts.gate_up.weight"),
                          .down = weights.Find(layer.name + ".experts.down.weight"),
                          .bias = weights.FindOrNull(layer.name + ".router.bias")};
  experts_.emplace(*spec_.experts, own, parallel.experts,
                   ExpertsOptions{.recompute = recompute_, .router = options.router, .sums = options.sums});
}

at::Tensor DecoderLayer::Forward(const at::Tensor& x, const MicroBatch& batch) const {
  const at::Tensor normalised = RmsNorm(x, attention_norm_, spec_.norm_eps);
  const at::Tensor branch = Attention(EnterNormalised(normalised, x, attention_norm_), batch);
  const AddedNorm attended = AddRmsNorm(x, branch, mlp_norm_, spec_.norm_eps);
  if (experts_) return attended.sum + Experts(attended, batch);
  return attended.sum + mlp_->Forward(EnterNormalised(attended.normalised, attended.sum, mlp_norm_));
}

LinearInput DecoderLayer::EnterNormalised(const at::Tensor& normalised, const at::Tensor& x,
                                          const Weight& norm) const {
  LinearInput input(Enter(normalised, parallel_));
  if (recompute_) {
    input.again = [this, x = x.detach(), &norm] {
      const at::NoGradGuard no_graph;
      return Enter(RmsNorm(x, norm, spec_.norm_eps), parallel_);
    };
  }
  return input;
}

at::Tensor DecoderLayer::Attention(const LinearInput& x, const MicroBatch& batch) const {
  if (latent_) return AddBias(Leave(Linear(latent_->Forward(x, batch), output_), parallel_), output_bias_);
  const HeadShape shape{.rows = batch.rows,
                        .length = batch.length,
                        .heads = spec_.attention.heads / parallel_.size(),
                        .kv_heads = std::max<int64_t>(spec_.attention.kv_heads / parallel_.size(), 1),
                        .head_dim = spec_.attention.head_dim,
                        .norm_eps = spec_.attention.norm_eps};
  const at::Tensor qkv = Linear(x, *qkv_, qkv_bias_);
  const Heads heads = SplitHeads(qkv, shape, query_norm_, key_norm_,
                                 batch.TableFor(frequencies_, spec_.attention.rope.magnitude));
  return AddBias(Leave(AttentionCore(heads, batch), parallel_), output_bias_);
}

// Over several ranks or documents the result is kept whatever `recompute` says: making it again would cost a
// second round of messages.
at::Tensor DecoderLayer::AttentionCore(const Heads& heads, const MicroBatch& batch) const {
  if (!batch.context->plain()) {
    const double scale = 1.0 / std::sqrt(static_cast<double>(spec_.attention.head_dim));
    return Linear(ContextAttention(heads, scale, batch.context, context_), output_);
  }
  if (!recompute_) return Linear(CausalAttention(heads), output_);
  const Attended attended = CausalAttentionAgain(heads);
  return Linear({attended.output, attended.again}, output_);
}

at::Tensor DecoderLayer::Experts(const AddedNorm& attended, const MicroBatch& batch) const {
  LinearInput share(TakeShare(attended.normalised, parallel_));
  if (recompute_) {
    share.again = [this, x = attended.sum.detach()] {
      const at::NoGradGuard no_graph;
      return TakeShare(RmsNorm(x, mlp_norm_, spec_.norm_eps), parallel_);
    };
  }
  const RouterTokens tokens{.real = ShareOf(batch.real, parallel_),
                            .sequence = ShareOf(batch.sequence, parallel_),
                            .order = ShareOf(batch.order, parallel_),
                            .sequences = batch.sequences,
                            .scale = batch.token_scale,
                            .pool = &batch.pool};
  if (!mlp_) return GiveShare(experts_->Forward(share, tokens), parallel_);
  LinearInput activated{at::Tensor()};
  at::Tensor shared;
  const auto up = [&] {
    activated = mlp_->Up(EnterNormalised(attended.normalised, attended.sum, mlp_norm_));
  };
  const auto down = [&] { shared = Shared(activated, share); };
  const at::Tensor routed = experts_->Forward(share, tokens, {.on_the_way = up, .on_the_way_back = down});
  return GiveShare(routed + shared, parallel_);
}

at::Tensor DecoderLayer::Shared(const LinearInput& activated, const LinearInput& share) const {
  const at::Tensor mine = TakeShare(mlp_->Down(activated), parallel_);
  if (shared_gate_ == nullptr) return mine;
  return mine * RouterLogits(share, *shared_gate_).sigmoid().to(mine.scalar_type());
}

}  // namespace trireme
