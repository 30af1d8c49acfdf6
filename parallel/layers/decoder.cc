#include "parallel/layers/decoder.h"

#include <algorithm>
#include <cmath>

#include "ops/router.h"
#include "parallel/context/context_attention.h"
#include "parallel/experts/token_share.h"
#include "parallel/layers/bias.h"

namespace trireme {
namespace {

const LowRankWeights* PairsOf(const Projection& projection) {
  return projection.pairs() ? &*projection.pairs() : nullptr;
}

Projection::Place PlaceOf(const Layer& layer, const Weights& weights, const LayerOptions& options, int rank) {
  return {.layer = layer, .weights = weights, .dropout = options.adapter_dropout, .tensor_rank = rank};
}

int ExpertTensorRank(const ExpertParallel& parallel) {
  return parallel.group.rank() % parallel.expert_tensor;
}

}  // namespace

DecoderLayer::DecoderLayer(const Layer& layer, const Weights& weights, const LayerParallel& parallel,
                           const LayerOptions& options)
    : name_(layer.name),
      spec_(std::get<DecoderSpec>(layer.spec)),
      parallel_(parallel.tensor),
      context_(parallel.context),
      dropout_(options.hidden_dropout),
      recompute_(options.recompute_selected),
      frequencies_(InverseFrequencies(spec_.attention.rope)),
      attention_norm_(weights.Find(layer.name + ".attention_norm.weight")),
      qkv_(PlaceOf(layer, weights, options, parallel_.rank()), "attention.qkv",
           {"attention.q", "attention.k", "attention.v"}),
      qkv_bias_(weights.FindOrNull(layer.name + ".attention.qkv.bias")),
      query_norm_(weights.FindOrNull(layer.name + ".attention.q_norm.weight")),
      key_norm_(weights.FindOrNull(layer.name + ".attention.k_norm.weight")),
      output_(PlaceOf(layer, weights, options, parallel_.rank()), "attention.output"),
      output_bias_(weights.FindOrNull(layer.name + ".attention.output.bias")),
      mlp_norm_(weights.Find(layer.name + ".mlp_norm.weight")),
      router_(PlaceOf(layer, weights, options, 0), "router"),
      expert_gate_up_(PlaceOf(layer, weights, options, 0), "experts.gate_up", {"experts.gate", "experts.up"}),
      expert_down_(PlaceOf(layer, weights, options, ExpertTensorRank(parallel.experts)), "experts.down"),
      shared_gate_(PlaceOf(layer, weights, options, 0), "shared_gate") {
  const Projection::Place place = PlaceOf(layer, weights, options, parallel_.rank());
  if (spec_.attention.latent) latent_.emplace(spec_.attention, place, parallel);
  if (!spec_.experts) {
    mlp_.emplace("mlp", place, parallel_, recompute_);
    return;
  }
  if (spec_.experts->shared_ffn > 0) mlp_.emplace("shared", place, parallel_, recompute_);
  const ExpertWeights own{
      .router = router_.weight(),
      .gate_up = expert_gate_up_.weight(),
      .down = expert_down_.weight(),
      .bias = weights.FindOrNull(layer.name + ".router.bias"),
      .pairs = {
          .router = PairsOf(router_), .gate_up = PairsOf(expert_gate_up_), .down = PairsOf(expert_down_)}};
  experts_.emplace(*spec_.experts, own, parallel.experts,
                   ExpertsOptions{.recompute = recompute_, .router = options.router, .sums = options.sums});
}

at::Tensor DecoderLayer::Forward(const at::Tensor& x, const MicroBatch& batch) const {
  const at::Tensor normalised = RmsNorm(x, attention_norm_, spec_.norm_eps);
  const at::Tensor branch = Attention(EnterNormalised(normalised, x, attention_norm_), batch);
  const AddedNorm attended = AddAttention(x, branch, batch);
  if (experts_) return Add(attended.sum, Experts(attended, batch), ".mlp", batch);
  const LinearInput entered = EnterNormalised(attended.normalised, attended.sum, mlp_norm_);
  return Add(attended.sum, mlp_->Forward(entered, batch), ".mlp", batch);
}

at::Tensor DecoderLayer::Add(const at::Tensor& x, const at::Tensor& branch, const char* part,
                             const MicroBatch& batch) const {
  const auto dropout = HiddenDropout(name_ + part, dropout_, batch, parallel_);
  return dropout ? DropoutAdd(x, branch, dropout) : x + branch;
}

AddedNorm DecoderLayer::AddAttention(const at::Tensor& x, const at::Tensor& branch,
                                     const MicroBatch& batch) const {
  if (dropout_ == 0 || !batch.dropout) return AddRmsNorm(x, branch, mlp_norm_, spec_.norm_eps);
  const at::Tensor sum = Add(x, branch, ".attention", batch);
  return {.sum = sum, .normalised = RmsNorm(sum, mlp_norm_, spec_.norm_eps)};
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
  if (latent_) {
    return AddBias(Leave(output_.Forward(latent_->Forward(x, batch), batch), parallel_), output_bias_);
  }
  const HeadShape shape{.rows = batch.rows,
                        .length = batch.length,
                        .heads = spec_.attention.heads / parallel_.size(),
                        .kv_heads = std::max<int64_t>(spec_.attention.kv_heads / parallel_.size(), 1),
                        .head_dim = spec_.attention.head_dim,
                        .norm_eps = spec_.attention.norm_eps};
  const at::Tensor qkv = qkv_.Forward(x, batch, qkv_bias_);
  const Heads heads = SplitHeads(qkv, shape, query_norm_, key_norm_,
                                 batch.TableFor(frequencies_, spec_.attention.rope.magnitude));
  return AddBias(Leave(AttentionCore(heads, batch), parallel_), output_bias_);
}

// Over several ranks or documents the result is kept whatever `recompute` says: making it again would cost a
// second round of messages.
at::Tensor DecoderLayer::AttentionCore(const Heads& heads, const MicroBatch& batch) const {
  const double scale = 1.0 / std::sqrt(static_cast<double>(spec_.attention.head_dim));
  if (batch.cache != nullptr) return output_.Forward(batch.cache->Attend(name_, heads, scale), batch);
  if (!batch.context->plain()) {
    return output_.Forward(ContextAttention(heads, scale, batch.context, context_), batch);
  }
  if (!recompute_) return output_.Forward(CausalAttention(heads), batch);
  const Attended attended = CausalAttentionAgain(heads);
  return output_.Forward({attended.output, attended.again}, batch);
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
  const ExpertDropout dropout = DropoutOf(batch);
  if (!mlp_) return GiveShare(experts_->Forward(share, tokens, dropout), parallel_);
  LinearInput activated{at::Tensor()};
  at::Tensor shared;
  const auto up = [&] {
    activated = mlp_->Up(EnterNormalised(attended.normalised, attended.sum, mlp_norm_), batch);
  };
  const auto down = [&] { shared = Shared(activated, share, batch); };
  const at::Tensor routed =
      experts_->Forward(share, tokens, dropout, {.on_the_way = up, .on_the_way_back = down});
  return GiveShare(routed + shared, parallel_);
}

at::Tensor DecoderLayer::Shared(const LinearInput& activated, const LinearInput& share,
                                const MicroBatch& batch) const {
  const at::Tensor mine = TakeShare(mlp_->Down(activated, batch), parallel_);
  if (!shared_gate_.there()) return mine;
  at::Tensor gate = RouterLogits(share, shared_gate_.weight());
  if (const LowRankWeights* pairs = PairsOf(shared_gate_)) {
    const at::Tensor rows = batch.dropout ? ShareOf(batch.identities, parallel_) : at::Tensor();
    gate = AddLowRank(gate, {.x = share, .dropout = shared_gate_.DropoutOf(batch, rows)}, *pairs);
  }
  return mine * gate.sigmoid().to(mine.scalar_type());
}

// Of this rank's share of the tokens.
ExpertDropout DecoderLayer::DropoutOf(const MicroBatch& batch) const {
  if (!batch.dropout) return {};
  const at::Tensor rows = ShareOf(batch.identities, parallel_);
  return {.router = router_.DropoutOf(batch, rows),
          .gate_up = expert_gate_up_.DropoutOf(batch, rows),
          .down = expert_down_.DropoutOf(batch, rows)};
}

}  // namespace trireme
