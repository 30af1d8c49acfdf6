// Fused attention and its adjoint, for batches of equal length and for packed sequences of different length
// (TND). Without dropout, position shift or prefix: these are refused by name, not ignored.
#include <ATen/ATen.h>

#include <limits>

#include "twin/opapi/operator.h"

TWIN_OPERATOR_WORDS

namespace {

// Which keys a query sees.
struct Sight {
  Optional<Tensor> mask;  // true: hidden; modes 0 and 1. [s_q, s_k], or with batch and heads before it
  int64_t mode;           // 2: causal from the top left · 3: from the bottom right · 4: a band
  int64_t before, after;  // how far back and ahead a query sees, in mode 4

  bool causal(const Tensor& query, const Tensor& key) const {
    return mode == 2 || (mode == 3 && query.size(2) == key.size(2));
  }

  // What is added to the scores, as the mask is or [s_q, s_k]; nothing where causal() says it all.
  std::optional<Tensor> Bias(const Tensor& query, const Tensor& key) const {
    TORCH_CHECK(mode >= 0 && mode <= 4, "sparse mode ", mode,
                " is not computed by the CANN twin; 0 to 4 are");
    if (causal(query, key) || (mode < 2 && !mask)) return std::nullopt;
    // A mask made for the longest of packed sequences serves the others too.
    const Tensor hidden = mode < 2
                              ? mask->to(at::kBool).narrow(-2, 0, query.size(2)).narrow(-1, 0, key.size(2))
                              : OutsideBand(query.size(2), key.size(2));
    return at::zeros(hidden.sizes(), query.options())
        .masked_fill(hidden, -std::numeric_limits<double>::infinity());
  }

  Tensor OutsideBand(int64_t queries, int64_t keys) const {
    // How far a key lies ahead of its query, the last of both being level. [s_q, s_k]
    const Tensor ahead = at::arange(keys).unsqueeze(0) - at::arange(queries).unsqueeze(1) - (keys - queries);
    return mode == 3 ? ahead > 0 : (ahead > after).logical_or(ahead < -before);
  }
};

// [b, n, s, d] of a tensor in `layout` with `heads` heads, as a view, so that it can be written to as well.
Tensor Inside(const Tensor& x, const std::string& layout, int64_t heads) {
  if (layout == "BNSD") return x;
  if (layout == "BSND") return x.transpose(1, 2);
  if (layout == "BSH") return x.unflatten(2, {heads, -1}).transpose(1, 2);
  if (layout == "SBH") return x.unflatten(2, {heads, -1}).permute({1, 2, 0, 3});
  TORCH_CHECK(false, "layout ", layout,
              " is not computed by the CANN twin; BNSD, BSND, BSH, SBH and TND are");
}

int64_t KeyHeads(const Tensor& query, const Tensor& key, const std::string& layout, int64_t heads) {
  if (layout == "BNSD") return key.size(1);
  if (layout == "BSND") return key.size(2);
  return key.size(2) / (query.size(2) / heads);
}

// Every query head gets its key head. [b, n, s, d]
Tensor ForAllHeads(const Tensor& x, int64_t heads) { return x.repeat_interleave(heads / x.size(1), 1); }

// All [b, n, s, d] inside. `log_sum` [b, n, s]: the logarithm of the sum of all exp(score).
void Forward(const Tensor& q, const Tensor& k, const Tensor& v, const Sight& sight, double scale,
             const Tensor& out, const Tensor& log_sum) {
  const auto [score, sum] =
      at::_scaled_dot_product_flash_attention_for_cpu(q, ForAllHeads(k, q.size(1)), ForAllHeads(v, q.size(1)),
                                                      0, sight.causal(q, k), sight.Bias(q, k), scale);
  out.copy_(score);
  log_sum.copy_(sum);
}

struct Gradients {
  Tensor query, key, value;  // [b, n, s, d], written to
};

void Backward(const Tensor& q, const Tensor& k, const Tensor& v, const Sight& sight, double scale,
              const Tensor& out, const Tensor& log_sum, const Tensor& grad, const Gradients& into) {
  const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      grad, q, ForAllHeads(k, q.size(1)), ForAllHeads(v, q.size(1)), out, log_sum, 0, sight.causal(q, k),
      sight.Bias(q, k), scale);
  into.query.copy_(dq);
  into.key.copy_(dk.unflatten(1, {k.size(1), -1}).sum(2));
  into.value.copy_(dv.unflatten(1, {k.size(1), -1}).sum(2));
}

void Refuse(const Optional<Tensor>& shift, const Optional<Tensor>& dropped, double keep,
            const Optional<Ints>& prefix) {
  TORCH_CHECK(!shift || shift->numel() == 0, "attention with pse is not computed by the CANN twin");
  TORCH_CHECK((!dropped || dropped->numel() == 0) && keep == 1,
              "attention with dropout is not computed by the CANN twin; keep_prob is ", keep);
  TORCH_CHECK(!prefix || prefix->empty(), "attention with prefix is not computed by the CANN twin");
}

// The interface keeps a maximum and a sum, [..., 8] with equal columns, exp(score - maximum) / sum being the
// probability. With the logarithm of the sum as maximum, the sum is one.
Tensor LogSum(const Tensor& maximum, const Tensor& sum) {
  return maximum.select(-1, 0) + sum.select(-1, 0).log();
}

void KeepLogSum(const Tensor& log_sum, const Tensor& maximum, const Tensor& sum) {
  maximum.copy_(log_sum.unsqueeze(-1).expand_as(maximum));
  sum.fill_(1);
}

// The part of a packed tensor [t, n, d] that is sequence `index`, as [1, n, s, d]; `ends` are running sums.
Tensor Sequence(const Tensor& packed, const Ints& ends, size_t index) {
  const int64_t begin = index == 0 ? 0 : ends.at(index - 1);
  return packed.slice(0, begin, ends.at(index)).transpose(0, 1).unsqueeze(0);
}

// The same of [t, n], as [1, n, s].
Tensor SequenceRows(const Tensor& packed, const Ints& ends, size_t index) {
  return Sequence(packed.unsqueeze(-1), ends, index).squeeze(-1);
}

}  // namespace

OP(aclnnFlashAttentionScore,
   [](Tensor query, Tensor key, Tensor value, Optional<Tensor> shift, Optional<Tensor> dropped,
      Optional<Tensor>, Optional<Tensor> mask, Optional<Ints> prefix, double scale, double keep,
      int64_t before, int64_t after, int64_t heads, std::string layout, int64_t, int64_t mode, Tensor maximum,
      Tensor sum, Optional<Tensor>, Tensor out) {
     Refuse(shift, dropped, keep, prefix);
     const Sight sight{.mask = mask, .mode = mode, .before = before, .after = after};
     const int64_t key_heads = KeyHeads(query, key, layout, heads);
     const Tensor log_sum = at::empty(maximum.sizes().slice(0, 3), at::kFloat);
     Forward(Inside(query, layout, heads), Inside(key, layout, key_heads), Inside(value, layout, key_heads),
             sight, scale, Inside(out, layout, heads), log_sum);
     KeepLogSum(log_sum, maximum, sum);
   })
OP(aclnnFlashAttentionScoreGrad,
   [](Tensor query, Tensor key, Tensor value, Tensor grad, Optional<Tensor> shift, Optional<Tensor> dropped,
      Optional<Tensor>, Optional<Tensor> mask, Tensor maximum, Tensor sum, Optional<Tensor>, Tensor out,
      Optional<Ints> prefix, double scale, double keep, int64_t before, int64_t after, int64_t heads,
      std::string layout, int64_t, int64_t mode, Tensor grad_query, Tensor grad_key, Tensor grad_value,
      Optional<Tensor>) {
     Refuse(shift, dropped, keep, prefix);
     const Sight sight{.mask = mask, .mode = mode, .before = before, .after = after};
     const int64_t key_heads = KeyHeads(query, key, layout, heads);
     const auto inside = [&](const Tensor& x, int64_t count) { return Inside(x, layout, count); };
     Backward(inside(query, heads), inside(key, key_heads), inside(value, key_heads), sight, scale,
              inside(out, heads), LogSum(maximum, sum), inside(grad, heads),
              {.query = inside(grad_query, heads),
               .key = inside(grad_key, key_heads),
               .value = inside(grad_value, key_heads)});
   })

OP(aclnnFlashAttentionVarLenScore,
   [](Tensor query, Tensor key, Tensor value, Optional<Tensor> shift, Optional<Tensor> dropped,
      Optional<Tensor>, Optional<Tensor> mask, Optional<Ints> prefix, Ints query_ends, Ints key_ends,
      double scale, double keep, int64_t before, int64_t after, int64_t, std::string, int64_t, int64_t mode,
      Tensor maximum, Tensor sum, Optional<Tensor>, Tensor out) {
     Refuse(shift, dropped, keep, prefix);
     const Sight sight{.mask = mask, .mode = mode, .before = before, .after = after};
     const Tensor log_sum = at::empty(maximum.sizes().slice(0, 2), at::kFloat);
     for (size_t i = 0; i < query_ends.size(); ++i) {
       Forward(Sequence(query, query_ends, i), Sequence(key, key_ends, i), Sequence(value, key_ends, i),
               sight, scale, Sequence(out, query_ends, i), SequenceRows(log_sum, query_ends, i));
     }
     KeepLogSum(log_sum, maximum, sum);
   })
OP(aclnnFlashAttentionUnpaddingScoreGrad,
   [](Tensor query, Tensor key, Tensor value, Tensor grad, Optional<Tensor> shift, Optional<Tensor> dropped,
      Optional<Tensor>, Optional<Tensor> mask, Tensor maximum, Tensor sum, Optional<Tensor>, Tensor out,
      Optional<Ints> prefix, Ints query_ends, Ints key_ends, double scale, double keep, int64_t before,
      int64_t after, int64_t, std::string, int64_t, int64_t mode, Tensor grad_query, Tensor grad_key,
      Tensor grad_value, Optional<Tensor>) {
     Refuse(shift, dropped, keep, prefix);
     const Sight sight{.mask = mask, .mode = mode, .before = before, .after = after};
     const Tensor log_sum = LogSum(maximum, sum);
     for (size_t i = 0; i < query_ends.size(); ++i) {
       Backward(Sequence(query, query_ends, i), Sequence(key, key_ends, i), Sequence(value, key_ends, i),
                sight, scale, Sequence(out, query_ends, i), SequenceRows(log_sum, query_ends, i),
                Sequence(grad, query_ends, i),
                {.query = Sequence(grad_query, query_ends, i),
                 .key = Sequence(grad_key, key_ends, i),
                 .value = Sequence(grad_value, key_ends, i)});
     }
   })
