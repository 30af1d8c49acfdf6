#include "parallel/layers/decoder.h"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "ops/router/router.h"
#include "parallel/context/context_attention.h"
#include "parallel/experts/token_shard.h"
#include "parallel/layers/bias.h"
#include "parallel/layers/wide_norm.h"

namespace trireme {
namespace {

const LowRankWeights* AdaptersOf(const Projection& projection) {
  return projection.adapters() ? &*projection.adapters() : nullptr;
}

// `tensor`: the group over which inputs may be split; nullptr: another than the tensor-parallel one, or none.
Projection::Place PlaceOf(const Layer& layer, const Weights& weights, const LayerOptions& options, int rank,
                          Communicator* tensor = nullptr) {
  return {
      .layer = layer, .weights = weights, .dropout = options.adapter_dropout, .tensor_rank = rank, .tensor = tensor};
}

int ExpertTensorRank(const ExpertParallel& parallel) { return parallel.group.rank() % parallel.expert_tensor; }

// Of a projection whose query heads are twice as wide, [query | gate] each: q|k|v, and the gates of all heads.
std::pair<at::Tensor, at::Tensor> SplitGate(const at::Tensor& projected, const HeadShape& shape) {
  const int64_t queries = shape.heads * shape.head_dim;
  const auto halves = projected.narrow(-1, 0, 2 * queries).unflatten(-1, {shape.heads, 2, shape.head_dim}).unbind(-2);
  const at::Tensor rest = projected.narrow(-1, 2 * queries, projected.size(-1) - 2 * queries);
  return {at::cat({halves[0].flatten(1), rest}, -1), halves[1].flatten(1)};
}

// q|k|v of a projection that has, for each key head, its query heads, the key and the value.
at::Tensor Ungrouped(const at::Tensor& projected, const HeadShape& shape) {
  const int64_t queries = shape.heads / shape.kv_heads;
  const auto parts =
      projected.unflatten(-1, {shape.kv_heads, queries + 2, shape.head_dim}).split_with_sizes({queries, 1, 1}, -2);
  return at::cat({parts[0].flatten(1), parts[1].flatten(1), parts[2].flatten(1)}, -1);
}

// The projections that are one module each in files.
std::vector<std::string> PartsOfQkv(const AttentionSpec& spec) {
  if (spec.qkv_by_group) return {"attention.qkv"};
  return {"attention.q", "attention.k", "attention.v"};
}

at::Tensor Gated(const at::Tensor& attended, const at::Tensor& gate) {
  return gate.defined() ? attended * gate.sigmoid() : attended;
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
      offset_(spec_.attention.norms.offset),
      rotation_(spec_.attention.rope),
      attention_norm_(weights.FindOrNull(layer.name + ".attention_norm.weight")),
      attention_output_norm_(weights.FindOrNull(layer.name + ".attention_output_norm.weight")),
      qkv_(PlaceOf(layer, weights, options, parallel_.rank(), &parallel_.group), "attention.qkv",
           PartsOfQkv(spec_.attention)),
      qkv_bias_(weights.FindOrNull(layer.name + ".attention.qkv.bias")),
      query_norm_(weights.FindOrNull(layer.name + ".attention.q_norm.weight")),
      key_norm_(weights.FindOrNull(layer.name + ".attention.k_norm.weight")),
      sinks_(weights.FindOrNull(layer.name + ".attention.sinks.weight")),
      output_(PlaceOf(layer, weights, options, parallel_.rank(), &parallel_.group), "attention.output"),
      output_bias_(weights.FindOrNull(layer.name + ".attention.output.bias")),
      mlp_norm_(weights.FindOrNull(layer.name + ".mlp_norm.weight")),
      mlp_output_norm_(weights.FindOrNull(layer.name + ".mlp_output_norm.weight")),
      router_(PlaceOf(layer, weights, options, 0), "router"),
      expert_gate_up_(PlaceOf(layer, weights, options, 0), "experts.gate_up", {"experts.gate", "experts.up"}),
      expert_down_(PlaceOf(layer, weights, options, ExpertTensorRank(parallel.experts)), "experts.down"),
      shared_gate_(PlaceOf(layer, weights, options, 0), "shared_gate") {
  const Projection::Place place = PlaceOf(layer, weights, options, parallel_.rank(), &parallel_.group);
  if (spec_.attention.latent) latent_.emplace(spec_.attention, place, parallel);
  if (spec_.attention.delta) delta_.emplace(spec_.attention, place, parallel);
  if (!spec_.experts) {
    mlp_.emplace("mlp", place, parallel_, recompute_, spec_.mlp.activation);
    return;
  }
  if (spec_.experts->shared_ffn > 0) mlp_.emplace("shared", place, parallel_, recompute_);
  ExpertWeights own{.router = router_.weight(),
                    .gate_up = expert_gate_up_.weight(),
                    .down = expert_down_.weight(),
                    .bias = weights.FindOrNull(layer.name + ".router.bias"),
                    .router_bias = weights.FindOrNull(layer.name + ".router.logit_bias"),
                    .gate_up_bias = weights.FindOrNull(layer.name + ".experts.gate_up.bias"),
                    .down_bias = weights.FindOrNull(layer.name + ".experts.down.bias")};
  const ExpertsOptions expert_options{
      .recompute = recompute_, .router = options.router, .sums = options.sums, .expected = options.expected};
  base_experts_.emplace(*spec_.experts, own, parallel.experts, expert_options);
  own.adapters = {
      .router = AdaptersOf(router_), .gate_up = AdaptersOf(expert_gate_up_), .down = AdaptersOf(expert_down_)};
  experts_.emplace(*spec_.experts, own, parallel.experts, expert_options);
}

at::Tensor DecoderLayer::Forward(const at::Tensor& x, PassContext& pass) const {
  const AddedNorm entered_norm = attention_norm_ != nullptr && offset_ == 0
                                     ? CarriedRmsNorm(x, *attention_norm_, spec_.norm_eps)
                                     : AddedNorm{x, Normalised(x, attention_norm_)};
  const at::Tensor branch =
      Added(Attention(GatherNormalised(entered_norm.normalised, x, attention_norm_), pass), attention_output_norm_);
  const AddedNorm attended = AddAttention(entered_norm.sum, branch, pass);
  if (experts_) return Add(attended.sum, Added(Experts(attended, pass), mlp_output_norm_), ".mlp", pass);
  const LinearInput entered = GatherNormalised(attended.normalised, attended.sum, mlp_norm_);
  return Add(attended.sum, Added(mlp_->Forward(entered, pass), mlp_output_norm_), ".mlp", pass);
}

at::Tensor DecoderLayer::Normalised(const at::Tensor& x, const Weight* norm) const {
  return norm != nullptr ? OffsetRmsNorm(x, *norm, spec_.norm_eps, offset_) : x;
}

at::Tensor DecoderLayer::Added(const at::Tensor& branch, const Weight* norm) const {
  const at::Tensor normalised = Normalised(branch, norm);
  return spec_.branch_scale == 1 ? normalised : normalised * spec_.branch_scale;
}

at::Tensor DecoderLayer::Add(const at::Tensor& x, const at::Tensor& branch, const char* part, PassContext& pass) const {
  const auto dropout = HiddenDropout(name_ + part, dropout_, pass, parallel_);
  return dropout ? DropoutAdd(x, branch, dropout) : x + branch;
}

AddedNorm DecoderLayer::AddAttention(const at::Tensor& x, const at::Tensor& branch, PassContext& pass) const {
  const bool drops = dropout_ != 0 && pass.options.dropout;
  if (!drops && mlp_norm_ != nullptr && offset_ == 0) return AddRmsNorm(x, branch, *mlp_norm_, spec_.norm_eps);
  const at::Tensor sum = Add(x, branch, ".attention", pass);
  return {.sum = sum, .normalised = Normalised(sum, mlp_norm_)};
}

LinearInput DecoderLayer::GatherNormalised(const at::Tensor& normalised, const at::Tensor& x,
                                           const Weight* norm) const {
  LinearInput input(GatherToTensorRegion(normalised, parallel_));
  if (recompute_) {
    input.again = [this, x = x.detach(), norm] {
      const at::NoGradGuard no_graph;
      return GatherToTensorRegion(Normalised(x, norm), parallel_);
    };
  }
  return input;
}

at::Tensor DecoderLayer::Attention(const LinearInput& x, PassContext& pass) const {
  if (delta_) return ReduceFromTensorRegion(delta_->Forward(x, pass), parallel_);
  if (latent_) {
    return AddBias(ReduceFromTensorRegion(output_.Forward(latent_->Forward(x, pass), pass), parallel_), output_bias_);
  }
  const HeadShape shape{.rows = pass.input.rows,
                        .length = pass.input.length,
                        .heads = spec_.attention.heads / parallel_.size(),
                        .kv_heads = std::max<int64_t>(spec_.attention.kv_heads / parallel_.size(), 1),
                        .head_dim = spec_.attention.head_dim,
                        .norm_eps = spec_.attention.norm_eps};
  at::Tensor projected = qkv_.Forward(x, pass, qkv_bias_), gate;
  if (spec_.attention.qkv_by_group) projected = Ungrouped(projected, shape);
  if (spec_.attention.output_gate) std::tie(projected, gate) = SplitGate(projected, shape);
  const at::Tensor qkv = Rearranged(projected, shape);
  const bool now = spec_.attention.qk_norm && offset_ == 0, late = spec_.attention.late_qk_norm;
  Heads heads =
      SplitHeads(qkv, shape, now ? query_norm_ : nullptr, now ? key_norm_ : nullptr, pass.TableFor(rotation_));
  if (late) heads.query = RmsNorm(heads.query, *query_norm_, spec_.attention.norm_eps);
  if (late) heads.key = RmsNorm(heads.key, *key_norm_, spec_.attention.norm_eps);
  return AddBias(ReduceFromTensorRegion(AttentionCore(heads, gate, pass), parallel_), output_bias_);
}

// Adjacent elements that rotate together are moved half of the rotated part apart, in queries and keys alike: no score
// changes.
at::Tensor DecoderLayer::Rearranged(const at::Tensor& qkv, const HeadShape& shape) const {
  const AttentionSpec& spec = spec_.attention;
  const bool by_head = spec.qk_norm && offset_ != 0;
  if (!spec.wide_qk_norm && !by_head && !spec.interleaved) return qkv;
  const int64_t dim = shape.head_dim, rotated = spec.rope.rotary_dim;
  const auto parts = qkv.split_with_sizes({shape.heads * dim, shape.kv_heads * dim, shape.kv_heads * dim}, -1);
  const auto rearranged = [&](at::Tensor part, const Weight* norm, int64_t heads, int64_t here) {
    if (spec.wide_qk_norm) {
      const WideNorm wide{.width = heads * dim, .copies = here * parallel_.size() / heads, .eps = spec.norm_eps};
      part = WideRmsNorm(part, *norm, wide, &parallel_.group);
    }
    if (by_head) part = OffsetRmsNorm(part.view({-1, here, dim}), *norm, spec.norm_eps, offset_).flatten(1);
    if (!spec.interleaved) return part;
    const auto elements = part.view({-1, here, dim}).split_with_sizes({rotated, dim - rotated}, -1);
    const at::Tensor halves = elements[0].unflatten(-1, {rotated / 2, 2}).transpose(-2, -1).flatten(-2);
    return at::cat({halves, elements[1]}, -1).flatten(1);
  };
  return at::cat({rearranged(parts[0], query_norm_, spec.heads, shape.heads),
                  rearranged(parts[1], key_norm_, spec.kv_heads, shape.kv_heads), parts[2]},
                 -1);
}

at::Tensor DecoderLayer::AttentionCore(const Heads& heads, const at::Tensor& gate, PassContext& pass) const {
  const double plain_scale = 1.0 / std::sqrt(static_cast<double>(spec_.attention.head_dim));
  const AttentionRule rule{.scale = spec_.attention.scale > 0 ? spec_.attention.scale : plain_scale,
                           .window = spec_.attention.window,
                           .soft_cap = spec_.attention.soft_cap,
                           .sinks = sinks_};
  if (pass.options.cache != nullptr) {
    const at::Tensor sinks = sinks_ != nullptr ? sinks_->value : at::Tensor();
    const at::Tensor attended = pass.options.cache->Attend(name_, heads, rule.scale, rule.window, rule.soft_cap, sinks);
    return output_.Forward(Gated(attended, gate), pass);
  }
  // The product saves both of its sides: what attention gives is not recomputed.
  if (gate.defined())
    return output_.Forward(Gated(ContextAttention(heads, rule, pass.input.context, context_), gate), pass);
  const bool hides = rule.window > 0 && rule.window < pass.input.length;
  const bool own_softmax = rule.scale != plain_scale || rule.soft_cap > 0 || rule.sinks != nullptr;
  if (hides || own_softmax || !pass.input.context->plain()) {
    if (!recompute_) return output_.Forward(ContextAttention(heads, rule, pass.input.context, context_), pass);
    const Attended attended = ContextAttentionAgain(heads, rule, pass.input.context, context_);
    return output_.Forward({attended.output, attended.again}, pass);
  }
  if (!recompute_) return output_.Forward(CausalAttention(heads), pass);
  const Attended attended = CausalAttentionAgain(heads);
  return output_.Forward({attended.output, attended.again}, pass);
}

at::Tensor DecoderLayer::Experts(const AddedNorm& attended, PassContext& pass) const {
  LinearInput shard(TakeShard(attended.normalised, parallel_));
  if (recompute_) {
    shard.again = [this, x = attended.sum.detach()] {
      const at::NoGradGuard no_graph;
      return TakeShard(Normalised(x, mlp_norm_), parallel_);
    };
  }
  const RouterTokens tokens{.real = ShardOf(pass.input.real, parallel_),
                            .sequence = ShardOf(pass.input.sequence, parallel_),
                            .order = ShardOf(pass.input.order, parallel_),
                            .sequences = pass.input.sequences,
                            .scale = pass.totals.per_token(),
                            .in_batch = pass.input.real_tokens,
                            .pool = &pass.router_pool(),
                            .generates = pass.options.cache != nullptr,
                            .expects_rows = pass.options.expects_rows};
  const ExpertAdapterInputs inputs = AdapterInputsOf(pass);
  const std::optional<ExpertRowAdapters> by_row = ExpertAdaptersOf(pass);
  const ExpertRowAdapters* adapters = by_row ? &*by_row : nullptr;
  const ExpertsBlock& experts = pass.options.adapters ? *experts_ : *base_experts_;
  if (!mlp_) return GiveShard(experts.Forward(shard, tokens, inputs, {}, adapters), parallel_);
  LinearInput activated{at::Tensor()};
  at::Tensor shared;
  const auto up = [&] { activated = mlp_->Up(GatherNormalised(attended.normalised, attended.sum, mlp_norm_), pass); };
  const auto down = [&] { shared = Shared(activated, shard, pass); };
  const at::Tensor routed =
      experts.Forward(shard, tokens, inputs, {.on_the_way = up, .on_the_way_back = down}, adapters);
  return GiveShard(routed + shared, parallel_);
}

at::Tensor DecoderLayer::Shared(const LinearInput& activated, const LinearInput& shard, PassContext& pass) const {
  const at::Tensor mine = TakeShard(mlp_->Down(activated, pass), parallel_);
  if (!shared_gate_.there()) return mine;
  at::Tensor gate = RouterLogits(shard, shared_gate_.weight());
  if (const RowAdapters* rows = RowAdaptersOf(pass)) {
    const at::Tensor own = ShardOf(rows->adapter_of, parallel_);
    gate =
        AddRowAdapters(gate, {.x = shard}, GroupByAdapter(own, gate.device()), rows->AdaptersOf(shared_gate_.role()));
  }
  if (const LowRankWeights* own = AdaptersOf(shared_gate_); own != nullptr && pass.options.adapters) {
    const at::Tensor rows = pass.options.dropout ? ShardOf(pass.input.identities, parallel_) : at::Tensor();
    gate = AddLowRank(gate, {.x = shard, .dropout = shared_gate_.DropoutOf(pass, rows), .slots = SlotsOfShard(pass)},
                      *own);
  }
  return mine * gate.sigmoid().to(mine.scalar_type());
}

std::optional<ExpertRowAdapters> DecoderLayer::ExpertAdaptersOf(PassContext& pass) const {
  const RowAdapters* rows = RowAdaptersOf(pass);
  if (rows == nullptr) return std::nullopt;
  return ExpertRowAdapters{.adapter_of = ShardOf(rows->adapter_of, parallel_),
                           .router = rows->AdaptersOf(router_.role()),
                           .gate_up = rows->AdaptersOf(expert_gate_up_.role()),
                           .down = rows->AdaptersOf(expert_down_.role()),
                           .on_experts = rows->on_experts};
}

std::shared_ptr<const AdapterSlots> DecoderLayer::SlotsOfShard(PassContext& pass) const {
  const std::shared_ptr<const AdapterSlots> all = pass.options.adapters ? pass.Slots() : nullptr;
  if (!all) return nullptr;
  return std::make_shared<const AdapterSlots>(all->slots, ShardOf(all->slot_of, parallel_), pass.input.tokens.device());
}

// For this rank's shard of the tokens.
ExpertAdapterInputs DecoderLayer::AdapterInputsOf(PassContext& pass) const {
  if (!pass.options.dropout) return {.slots = SlotsOfShard(pass)};
  const at::Tensor rows = ShardOf(pass.input.identities, parallel_);
  return {.router = router_.DropoutOf(pass, rows),
          .gate_up = expert_gate_up_.DropoutOf(pass, rows),
          .down = expert_down_.DropoutOf(pass, rows),
          .slots = SlotsOfShard(pass)};
}

}  // namespace trireme
