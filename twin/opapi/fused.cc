// Fused operators of transformers: attention, RMS norm, gated activation, rotary embedding, each with its
// adjoint beside it. Attention without dropout, position shift or prefix: these are refused by name, not
// ignored.
#include <ATen/ATen.h>

#include "twin/opapi/operator.h"

TWIN_OPERATOR_WORDS

namespace {

// What attention operators are given beside the tensors, and what follows from it. [b, n, s, d] inside.
struct Attention {
  std::string layout;
  int64_t heads;
  double scale;
  int64_t before, after;  // how far back and ahead a query sees, in mode 4
  int64_t mode;  // 0, 1: the mask as given · 2: causal from the top left · 3: from the bottom right · 4: band

  // [b, n, s, d] of a tensor in `layout`; `count` heads.
  Tensor Inside(const Tensor& x, int64_t count) const {
    if (layout == "BNSD") return x;
    if (layout == "BSND") return x.transpose(1, 2);
    if (layout == "BSH") return x.unflatten(2, {count, -1}).transpose(1, 2);
    if (layout == "SBH") return x.unflatten(2, {count, -1}).permute({1, 2, 0, 3});
    TORCH_CHECK(false, "layout ", layout, " is not computed by the CANN twin; BNSD, BSND, BSH and SBH are");
  }

  Tensor Outside(const Tensor& x) const {
    if (layout == "BNSD") return x;
    if (layout == "BSND") return x.transpose(1, 2);
    if (layout == "BSH") return x.transpose(1, 2).flatten(2);
    return x.permute({2, 0, 1, 3}).flatten(2);
  }

  int64_t KeyHeads(const Tensor& query, const Tensor& key) const {
    if (layout == "BNSD") return key.size(1);
    if (layout == "BSND") return key.size(2);
    return key.size(2) / (query.size(2) / heads);
  }

  bool causal(const Tensor& query, const Tensor& key) const {
    return mode == 2 || (mode == 3 && query.size(2) == key.size(2));
  }

  // What is added to the scores, [s_q, s_k] or as the mask is; nothing where causal() says it all.
  std::optional<Tensor> Bias(const std::optional<Tensor>& mask, const Tensor& query,
                             const Tensor& key) const {
    TORCH_CHECK(mode >= 0 && mode <= 4, "sparse mode ", mode,
                " is not computed by the CANN twin; 0 to 4 are");
    if (causal(query, key) || (mode < 2 && !mask)) return std::nullopt;
    const Tensor hidden = mode < 2 ? mask->to(at::kBool) : OutsideBand(query.size(2), key.size(2));
    return at::zeros(hidden.sizes(), query.options())
        .masked_fill(hidden, -std::numeric_limits<double>::infinity());
  }

  Tensor OutsideBand(int64_t queries, int64_t keys) const {
    // How far a key lies ahead of its query, the last of both being level. [s_q, s_k]
    const Tensor ahead = at::arange(keys).unsqueeze(0) - at::arange(queries).unsqueeze(1) - (keys - queries);
    return mode == 3 ? ahead > 0 : (ahead > after).logical_or(ahead < -before);
  }
};

void RefuseAttention(const Optional<Tensor>& shift, const Optional<Tensor>& dropped, double keep,
                     const Optional<Ints>& prefix) {
  TORCH_CHECK(!shift || shift->numel() == 0, "attention with pse is not computed by the CANN twin");
  TORCH_CHECK((!dropped || dropped->numel() == 0) && keep == 1,
              "attention with dropout is not computed by the CANN twin; keep_prob is ", keep);
  TORCH_CHECK(!prefix || prefix->empty(), "attention with prefix is not computed by the CANN twin");
}

Tensor RotateHalf(const Tensor& x, int64_t mode) {
  if (mode == 0) {
    const auto halves = x.chunk(2, -1);
    return at::cat({-halves[1], halves[0]}, -1);
  }
  const Tensor pairs = x.unflatten(-1, {-1, 2});
  return at::stack({-pairs.select(-1, 1), pairs.select(-1, 0)}, -1).flatten(-2);
}

Ints LastDims(const Tensor& x, int64_t count) {
  Ints dims;
  for (int64_t dim = x.dim() - count; dim < x.dim(); ++dim) dims.push_back(dim);
  return dims;
}

void RmsNorm(const Tensor& x, const Tensor& gamma, double eps, const Tensor& out, const Tensor& rstd) {
  const Tensor wide = x.to(at::kFloat);
  const Tensor scale = at::rsqrt(wide.square().mean(LastDims(x, gamma.dim()), true) + eps);
  out.copy_(wide * scale * gamma);
  rstd.copy_(scale.view_as(rstd));
}

}  // namespace

OP(aclnnFlashAttentionScore,
   [](Tensor query, Tensor key, Tensor value, Optional<Tensor> shift, Optional<Tensor> dropped,
      Optional<Tensor>, Optional<Tensor> mask, Optional<Ints> prefix, double scale, double keep,
      int64_t before, int64_t after, int64_t heads, std::string layout, int64_t, int64_t mode,
      Tensor softmax_max, Tensor softmax_sum, Optional<Tensor>, Tensor out) {
     RefuseAttention(shift, dropped, keep, prefix);
     const Attention rule{
         .layout = layout, .heads = heads, .scale = scale, .before = before, .after = after, .mode = mode};
     const int64_t key_heads = rule.KeyHeads(query, key);
     const Tensor q = rule.Inside(query, heads);
     const Tensor k = rule.Inside(key, key_heads).repeat_interleave(heads / key_heads, 1);
     const Tensor v = rule.Inside(value, key_heads).repeat_interleave(heads / key_heads, 1);
     const auto [score, log_sum] = at::_scaled_dot_product_flash_attention_for_cpu(
         q, k, v, 0, rule.causal(q, k), rule.Bias(mask, q, k), scale);
     out.copy_(rule.Outside(score));
     // Eight equal columns each: exp(score - max) / sum is the probability, with the logarithm of the sum as
     // max.
     softmax_max.copy_(log_sum.unsqueeze(-1).expand_as(softmax_max));
     softmax_sum.fill_(1);
   })
OP(aclnnFlashAttentionScoreGrad,
   [](Tensor query, Tensor key, Tensor value, Tensor grad, Optional<Tensor> shift, Optional<Tensor> dropped,
      Optional<Tensor>, Optional<Tensor> mask, Tensor softmax_max, Tensor softmax_sum, Optional<Tensor>,
      Tensor score, Optional<Ints> prefix, double scale, double keep, int64_t before, int64_t after,
      int64_t heads, std::string layout, int64_t, int64_t mode, Tensor grad_query, Tensor grad_key,
      Tensor grad_value, Optional<Tensor>) {
     RefuseAttention(shift, dropped, keep, prefix);
     const Attention rule{
         .layout = layout, .heads = heads, .scale = scale, .before = before, .after = after, .mode = mode};
     const int64_t key_heads = rule.KeyHeads(query, key);
     const Tensor q = rule.Inside(query, heads);
     const Tensor k = rule.Inside(key, key_heads).repeat_interleave(heads / key_heads, 1);
     const Tensor v = rule.Inside(value, key_heads).repeat_interleave(heads / key_heads, 1);
     const Tensor log_sum = softmax_max.select(-1, 0) + softmax_sum.select(-1, 0).log();
     const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
         rule.Inside(grad, heads), q, k, v, rule.Inside(score, heads), log_sum, 0, rule.causal(q, k),
         rule.Bias(mask, q, k), scale);
     grad_query.copy_(rule.Outside(dq));
     grad_key.copy_(rule.Outside(dk.unflatten(1, {key_heads, -1}).sum(2)));
     grad_value.copy_(rule.Outside(dv.unflatten(1, {key_heads, -1}).sum(2)));
   })

OP(aclnnRmsNorm,
   [](Tensor x, Tensor gamma, double eps, Tensor out, Tensor rstd) { RmsNorm(x, gamma, eps, out, rstd); })
OP(aclnnAddRmsNorm, [](Tensor x, Tensor y, Tensor gamma, double eps, Tensor out, Tensor rstd, Tensor sum) {
  at::add_out(sum, x, y);
  RmsNorm(sum, gamma, eps, out, rstd);
})
OP(aclnnRmsNormGrad, [](Tensor grad, Tensor x, Tensor rstd, Tensor gamma, Tensor grad_x, Tensor grad_gamma) {
  const Ints normed = LastDims(x, gamma.dim());
  Ints rest;
  for (int64_t dim = 0; dim < x.dim() - gamma.dim(); ++dim) rest.push_back(dim);
  const Tensor g = grad.to(at::kFloat);
  const Tensor unit = x.to(at::kFloat) * rstd;
  const Tensor along = g * gamma;
  grad_x.copy_(rstd * (along - unit * (along * unit).mean(normed, true)));
  grad_gamma.copy_(rest.empty() ? g * unit : (g * unit).sum(rest));
})

OP(aclnnSwiGlu, [](Tensor x, int64_t dim, Tensor out) {
  const auto halves = x.chunk(2, dim);
  out.copy_(at::silu(halves[0]) * halves[1]);
})
OP(aclnnSwiGluGrad, [](Tensor grad, Tensor x, int64_t dim, Tensor grad_x) {
  const auto halves = x.chunk(2, dim);
  const auto into = grad_x.chunk(2, dim);
  into[0].copy_(at::silu_backward(grad * halves[1], halves[0]));
  into[1].copy_(grad * at::silu(halves[0]));
})

OP(aclnnRotaryPositionEmbedding, [](Tensor x, Tensor cos, Tensor sin, int64_t mode, Tensor out) {
  out.copy_(x * cos + RotateHalf(x, mode) * sin);
})
OP(aclnnRotaryPositionEmbeddingGrad, [](Tensor grad, Tensor cos, Tensor sin, Optional<Tensor> x, int64_t mode,
                                        Tensor grad_x, Optional<Tensor> grad_cos, Optional<Tensor> grad_sin) {
  grad_x.copy_(grad * cos - RotateHalf(grad * sin, mode));  // the rotation's adjoint is its negative
  if (!x) return;
  if (grad_cos) grad_cos->copy_((grad * *x).sum_to_size(cos.sizes()));
  if (grad_sin) grad_sin->copy_((grad * RotateHalf(*x, mode)).sum_to_size(sin.sizes()));
})
