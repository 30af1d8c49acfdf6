#include "parallel/layers/latent_attention.h"

#include <ATen/ATen.h>

#include "ops/dequantise/dequantise.h"
#include "ops/rms_norm/rms_norm.h"
#include "parallel/context/context_attention.h"

namespace trireme {

LatentAttention::LatentAttention(const AttentionSpec& spec, const Projection::Place& place,
                                 const LayerParallel& parallel)
    : layer_(place.layer.name),
      spec_(spec),
      latent_(*spec.latent),
      parallel_(parallel),
      heads_(spec.heads / parallel.tensor.size()),
      rotation_(spec.rope),
      query_(place, "attention.q"),
      query_a_(place, "attention.q_a"),
      query_a_norm_(place.weights.FindOrNull(place.layer.name + ".attention.q_a_norm.weight")),
      query_b_(place, "attention.q_b"),
      kv_a_(place, "attention.kv_a"),
      kv_a_norm_(place.weights.Find(place.layer.name + ".attention.kv_a_norm.weight")),
      kv_b_(place, "attention.kv_b") {}

at::Tensor LatentAttention::Queries(const LinearInput& x, PassContext& pass) const {
  const auto by_way = [&] {
    return query_b_.Forward(RmsNorm(query_a_.Forward(x, pass), *query_a_norm_, latent_.norm_eps), pass);
  };
  const at::Tensor query = query_.there() ? query_.Forward(x, pass) : by_way();
  return query.view({-1, heads_, latent_.head_dim()});
}

// Adjacent elements that rotate together are moved half a head apart, in queries and keys alike: no score
// changes.
at::Tensor LatentAttention::Turned(const at::Tensor& x, PassContext& pass) const {
  const at::Tensor halves =
      latent_.interleaved ? x.unflatten(-1, {latent_.qk_rope_head_dim / 2, 2}).transpose(-2, -1).flatten(-2) : x;
  return Rotate(halves.contiguous(), pass.TableFor(rotation_));
}

at::Tensor LatentAttention::OfHeads(const at::Tensor& matrix) const {
  return matrix.reshape({heads_, latent_.qk_nope_head_dim + latent_.value_dim, matrix.size(1)});
}

at::Tensor LatentAttention::Expansion(PassContext& pass) const {
  const bool adapters = kv_b_.adapters() && pass.options.adapters;
  if (!adapters) return OfHeads(MatrixOf(kv_b_.weight()));
  return OfHeads(kv_b_.Forward(at::eye(latent_.kv_rank).to(kv_a_norm_.value.options()), pass).t());
}

// By rows of an adapter, one low-rank product after the other: its expansion is never made.
void LatentAttention::AddRowAdaptersToQueries(const at::Tensor& own, const at::Tensor& projected,
                                              PassContext& pass) const {
  const RowAdapters& rows = *RowAdaptersOf(pass);
  const std::vector<const LowRankWeights*> adapters = rows.AdaptersOf(kv_b_.role());
  at::Tensor sum = projected;
  for (const AdapterRows::Group& group : rows.rows.groups) {
    const LowRankWeights* adapter = adapters[static_cast<size_t>(group.adapter)];
    if (adapter == nullptr) continue;
    const at::Tensor b = OfHeads(adapter->blocks.front().b->value).narrow(1, 0, latent_.qk_nope_head_dim);
    const at::Tensor low = at::bmm(own.index_select(0, group.rows).transpose(0, 1), b).transpose(0, 1);
    sum.index_add_(0, group.rows, at::matmul(low, adapter->a->value), adapter->blocks.front().scale);
  }
}

void LatentAttention::AddRowAdaptersToValues(const at::Tensor& mixed, const at::Tensor& values,
                                             PassContext& pass) const {
  const RowAdapters& rows = *RowAdaptersOf(pass);
  const std::vector<const LowRankWeights*> adapters = rows.AdaptersOf(kv_b_.role());
  at::Tensor sum = values;
  for (const AdapterRows::Group& group : rows.rows.groups) {
    const LowRankWeights* adapter = adapters[static_cast<size_t>(group.adapter)];
    if (adapter == nullptr) continue;
    const at::Tensor low = at::matmul(mixed.index_select(0, group.rows), adapter->a->value.t());
    const at::Tensor b =
        OfHeads(adapter->blocks.front().b->value).narrow(1, latent_.qk_nope_head_dim, latent_.value_dim);
    sum.index_add_(0, group.rows, at::bmm(low.transpose(0, 1), b.transpose(1, 2)).transpose(0, 1),
                   adapter->blocks.front().scale);
  }
}

// A score of an expanded key is a score of its latent vector with a query that was projected back, and a mean of
// expanded values is the expansion of a mean of latent vectors: nothing but latents is cached, and no head's keys
// and values are ever made.
at::Tensor LatentAttention::OverLatents(const at::Tensor& own, const at::Tensor& turned, const at::Tensor& latent,
                                        PassContext& pass) const {
  const auto expansion = Expansion(pass).split_with_sizes({latent_.qk_nope_head_dim, latent_.value_dim}, 1);
  const at::Tensor projected = at::bmm(own.transpose(0, 1), expansion[0]).transpose(0, 1);
  if (RowAdaptersOf(pass) != nullptr) AddRowAdaptersToQueries(own, projected, pass);
  const at::Tensor query = at::cat({projected, turned}, -1);  // [tokens, heads, kv_rank + qk_rope_head_dim]
  const at::Tensor mixed = pass.options.cache->AttendLatents(layer_, query, latent, latent_.kv_rank, latent_.scale)
                               .view({-1, heads_, latent_.kv_rank});
  const at::Tensor values =
      at::bmm(mixed.transpose(0, 1), expansion[1].transpose(1, 2)).transpose(0, 1);  // [tokens, heads, value_dim]
  if (RowAdaptersOf(pass) != nullptr) AddRowAdaptersToValues(mixed, values, pass);
  return values.flatten(1);
}

at::Tensor LatentAttention::Forward(const LinearInput& x, PassContext& pass) const {
  const auto parts = Queries(x, pass).split_with_sizes({latent_.qk_nope_head_dim, latent_.qk_rope_head_dim}, -1);
  const at::Tensor turned = Turned(parts[1], pass);
  const auto compressed = kv_a_.Forward(x, pass).split_with_sizes({latent_.kv_rank, latent_.qk_rope_head_dim}, -1);
  const at::Tensor normalised = RmsNorm(compressed[0].contiguous(), kv_a_norm_, latent_.norm_eps);
  const at::Tensor shared = Turned(compressed[1].unsqueeze(1), pass);  // [tokens, 1, qk_rope_head_dim]
  if (pass.options.cache != nullptr) {
    return OverLatents(parts[0], turned, at::cat({normalised, shared.squeeze(1)}, -1), pass);
  }
  const at::Tensor query = at::cat({parts[0], turned}, -1);
  const at::Tensor kv =
      kv_b_.Forward(normalised, pass).view({-1, heads_, latent_.qk_nope_head_dim + latent_.value_dim});
  const auto own = kv.split_with_sizes({latent_.qk_nope_head_dim, latent_.value_dim}, -1);
  const at::Tensor key = at::cat({own[0], shared.expand({-1, heads_, -1})}, -1);
  const auto by_row = [&](const at::Tensor& t) {  // [tokens, heads, dim] to [rows, heads, length, dim]
    return t.view({pass.input.rows, pass.input.length, heads_, t.size(2)}).transpose(1, 2).contiguous();
  };
  const Heads heads{by_row(query).unsqueeze(3), by_row(key), by_row(own[1].contiguous())};
  return ContextAttention(heads, {.scale = latent_.scale}, pass.input.context, parallel_.context);
}

}  // namespace trireme
