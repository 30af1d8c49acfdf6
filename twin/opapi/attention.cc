// Fused attention and its backward, for batches of equal length and for packed sequences of different lengths
// (TND), with a value head size that may differ from the key's, with dropout, a position shift (pse) and keys that
// all queries see (prefix). A compressed position shift is refused by name, not ignored.
#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "twin/opapi/attention_layout.h"
#include "twin/opapi/bits.h"
#include "twin/opapi/operator.h"

TWIN_OPERATOR_WORDS

namespace {

using twin::Inside;

// Which keys a query sees.
struct Sight {
  Optional<Tensor> mask;  // true: masked out; modes 0 and 1. [s_q, s_k] or [b, n, s_q, s_k]
  int64_t mode;           // 2: causal, aligned top left · 3: bottom right · 4: a band · 5, 6: 3 and a prefix
  int64_t before, after;  // how far back and ahead a query sees, in mode 4
  Ints prefix = {};       // in modes 5 and 6: how many keys of each row every query sees

  bool causal(const Tensor& query, const Tensor& key) const {
    return mode == 2 || (mode == 3 && query.size(2) == key.size(2));
  }

  // The bias added to the scores, shaped like the mask or [s_q, s_k]; empty where causal() covers it.
  std::optional<Tensor> Bias(const Tensor& query, const Tensor& key) const {
    TORCH_CHECK(mode >= 0 && mode <= 6, "sparse mode ", mode, " is not supported by the CANN twin; 0 to 6 are");
    if (causal(query, key) || (mode < 2 && !mask) || (mode == 3 && query.size(2) == 1)) return std::nullopt;
    // A mask built for the longest packed sequence also serves the shorter ones.
    const Tensor hidden = mode < 2    ? OwnMask(query, key)
                          : mode < 5  ? OutsideBand(query.size(2), key.size(2))
                          : mode == 5 ? OutsidePrefix(query, key).logical_or(OwnMask(query, key))
                                      : OutsidePrefix(query, key);
    return at::zeros(hidden.sizes(), query.options()).masked_fill(hidden, -std::numeric_limits<double>::infinity());
  }

  Tensor OutsideBand(int64_t queries, int64_t keys) const {
    // How far a key is ahead of its query when the last query and the last key are aligned. [s_q, s_k]
    const Tensor ahead = at::arange(keys).unsqueeze(0) - at::arange(queries).unsqueeze(1) - (keys - queries);
    return mode == 4 ? (ahead > after).logical_or(ahead < -before) : ahead > 0;
  }

  Tensor OwnMask(const Tensor& query, const Tensor& key) const {
    return mask->to(at::kBool).narrow(-2, 0, query.size(2)).narrow(-1, 0, key.size(2));
  }

  // [b, 1, s_q, s_k]
  Tensor OutsidePrefix(const Tensor& query, const Tensor& key) const {
    const int64_t queries = query.size(2), keys = key.size(2);
    TORCH_CHECK(static_cast<int64_t>(prefix.size()) == query.size(0), "prefix has ", prefix.size(),
                " numbers; wanted one for each of ", query.size(0), " rows");
    for (const int64_t width : prefix) {
      TORCH_CHECK(width >= std::max<int64_t>(keys - queries, 0) && width <= keys, "a prefix of ", width, " with ",
                  queries, " queries and ", keys, " keys; wanted ", std::max<int64_t>(keys - queries, 0), " to ", keys);
    }
    const Tensor after_prefix = at::arange(keys).view({1, 1, 1, keys}) >= at::tensor(prefix).view({-1, 1, 1, 1});
    return OutsideBand(queries, keys).logical_and(after_prefix);
  }
};

int64_t KeyHeads(const Tensor& query, const Tensor& key, const std::string& layout, int64_t heads) {
  if (layout == "BNSD") return key.size(1);
  if (layout == "BSND") return key.size(2);
  return key.size(2) / (query.size(2) / heads);
}

// Repeats key heads for their query heads. [b, n, s, d]
Tensor ForAllHeads(const Tensor& x, int64_t heads) { return x.repeat_interleave(heads / x.size(1), 1); }

// ATen's flash attention needs equal head sizes. Zero padding changes neither a score nor, once it is sliced
// off again, a result.
Tensor Padded(const Tensor& x, int64_t size) {
  return x.size(-1) == size ? x : at::constant_pad_nd(x, {0, size - x.size(-1)});
}
int64_t LongerHead(const Tensor& k, const Tensor& v) { return std::max(k.size(-1), v.size(-1)); }

// Which probabilities are kept and divided by `keep`.
struct Dropout {
  Optional<Tensor> kept;  // one bit per [b, n, s_q, s_k] element; packed sequences are concatenated
  double keep = 1;

  bool none() const { return !kept || kept->numel() == 0; }
  // The multipliers of the next [b, n, s_q, s_k] scores, which come after `before` others.
  Tensor Factors(at::IntArrayRef shape, int64_t before) const {
    return twin::UnpackBits(*kept, before, c10::multiply_integers(shape)).view(shape).to(at::kFloat).div_(keep);
  }
};

// What the scores of one call share: a whole batch, or one packed sequence.
struct Scores {
  Sight sight;
  double scale;
  Dropout dropout;
  Optional<Tensor> shift = {};  // added before scaling: [b or 1, n, s_q or 1, s_k]
  int64_t before = 0;           // number of scores of the preceding sequences

  bool shifted() const { return shift && shift->numel() > 0; }
  // Whether ATen's fused attention computes them.
  bool fused() const { return dropout.none() && !shifted(); }
  Tensor Factors(at::IntArrayRef shape) const {
    return dropout.none() ? at::ones({1}) : dropout.Factors(shape, before);
  }

  // exp(score - log_sum) [b, n, s_q, s_k] in float; all zeros for a query that sees no key.
  Tensor Probabilities(const Tensor& q, const Tensor& k, Tensor* log_sum) const {
    Tensor scores = at::matmul(q.to(at::kFloat), k.to(at::kFloat).transpose(-1, -2));
    if (shifted()) scores.add_(*shift);
    scores.mul_(scale);
    if (sight.causal(q, k))
      scores.masked_fill_(at::ones({q.size(2), k.size(2)}, at::kBool).triu(1), -std::numeric_limits<float>::infinity());
    if (const auto bias = sight.Bias(q, k); bias) scores.add_(*bias);
    if (!log_sum->defined()) *log_sum = scores.logsumexp(-1);
    return scores.sub_(log_sum->unsqueeze(-1)).exp_().nan_to_num_(0);
  }
};

// Everything is [b, n, s, d] inside. `log_sum` [b, n, s]: logsumexp of the scores.
void Forward(const Tensor& q, const Tensor& few_k, const Tensor& few_v, const Scores& scores, const Tensor& out,
             const Tensor& log_sum) {
  const Tensor k = ForAllHeads(few_k, q.size(1)), v = ForAllHeads(few_v, q.size(1));
  if (!scores.fused()) {
    Tensor sum;
    const Tensor seen = scores.Probabilities(q, k, &sum);
    out.copy_(at::matmul(seen * scores.Factors(seen.sizes()), v.to(at::kFloat)));
    log_sum.copy_(sum);
    return;
  }
  const int64_t size = LongerHead(k, v);
  const auto [result, sum] =
      at::_scaled_dot_product_flash_attention_for_cpu(Padded(q, size), Padded(k, size), Padded(v, size), 0,
                                                      scores.sight.causal(q, k), scores.sight.Bias(q, k), scores.scale);
  out.copy_(result.narrow(-1, 0, v.size(-1)));
  log_sum.copy_(sum);
}

struct Gradients {
  Tensor query, key, value;     // [b, n, s, d], outputs
  Optional<Tensor> shift = {};  // like the shift itself
};

// With probabilities p and multipliers f: out = (p·f) v, so dp = (grad vᵀ)·f and ds = p·(dp -
// rowsum(grad·out)).
std::tuple<Tensor, Tensor, Tensor> PlainBackward(const Tensor& q, const Tensor& k, const Tensor& v,
                                                 const Scores& scores, const Tensor& out, Tensor log_sum,
                                                 const Tensor& grad, const Optional<Tensor>& grad_shift) {
  const Tensor seen = scores.Probabilities(q, k, &log_sum), wide = grad.to(at::kFloat);
  const Tensor factors = scores.Factors(seen.sizes());
  const Tensor of_seen = at::matmul(wide, v.to(at::kFloat).transpose(-1, -2)).mul_(factors);
  const Tensor level = (wide * out).sum(-1, true);
  const Tensor of_scores = (of_seen - level).mul_(seen).mul_(scores.scale);
  if (scores.shifted() && grad_shift) grad_shift->copy_(of_scores.sum_to_size(scores.shift->sizes()));
  return {at::matmul(of_scores, k.to(at::kFloat)), at::matmul(of_scores.transpose(-1, -2), q.to(at::kFloat)),
          at::matmul((seen * factors).transpose(-1, -2), wide)};
}

void Backward(const Tensor& q, const Tensor& few_k, const Tensor& few_v, const Scores& scores, const Tensor& out,
              const Tensor& log_sum, const Tensor& grad, const Gradients& into) {
  const Tensor k = ForAllHeads(few_k, q.size(1)), v = ForAllHeads(few_v, q.size(1));
  const int64_t size = LongerHead(k, v);
  const auto [dq, dk, dv] =
      scores.fused() ? at::_scaled_dot_product_flash_attention_for_cpu_backward(
                           Padded(grad, size), Padded(q, size), Padded(k, size), Padded(v, size), Padded(out, size),
                           log_sum, 0, scores.sight.causal(q, k), scores.sight.Bias(q, k), scores.scale)
                     : PlainBackward(q, k, v, scores, out, log_sum, grad, into.shift);
  const auto put = [&](const Tensor& to, const Tensor& all_heads) {
    to.copy_(all_heads.narrow(-1, 0, to.size(-1)).unflatten(1, {to.size(1), -1}).sum(2));
  };
  put(into.query, dq);
  put(into.key, dk);
  put(into.value, dv);
}

void Refuse(const Scores& scores, const Tensor& query, const Tensor& key) {
  const Dropout& dropout = scores.dropout;
  TORCH_CHECK(dropout.keep > 0 && dropout.keep <= 1, "keep_prob is ", dropout.keep, "; wanted above 0 and at most 1");
  TORCH_CHECK(dropout.keep == 1 || !dropout.none(), "keep_prob is ", dropout.keep, ", but there is no drop_mask");
  TORCH_CHECK(scores.sight.mode >= 5 || scores.sight.prefix.empty(), "prefix with sparse mode ", scores.sight.mode,
              "; wanted 5 or 6");
  TORCH_CHECK(scores.sight.mode != 5 || scores.sight.mask, "sparse mode 5 wants atten_mask");
  if (!scores.shifted()) return;
  const Tensor& shift = *scores.shift;
  TORCH_CHECK(shift.dim() == 4 && (shift.size(0) == 1 || shift.size(0) == query.size(0)) &&
                  shift.size(1) == query.size(1) && (shift.size(2) == 1 || shift.size(2) == query.size(2)) &&
                  shift.size(3) == key.size(2),
              "pse ", shift.sizes(), " with ", query.size(0), " rows of ", query.size(1), " heads, ", query.size(2),
              " queries and ", key.size(2), " keys; the CANN twin supports [b or 1, n, s_q or 1, s_k]");
}

// What the documentation of the variable-length operators (TND) forbids.
void RefusePacked(const Tensor& query, const Tensor& key, const Tensor& value, const Scores& scores,
                  const Ints& prefixes, const Ints& query_ends, const Ints& key_ends) {
  const Sight& sight = scores.sight;
  TORCH_CHECK(!scores.shifted(), "pse with packed sequences is not supported by the CANN twin");
  TORCH_CHECK(sight.mode != 5, "sparse mode 5 with packed sequences; wanted 6");
  TORCH_CHECK(prefixes.size() == (sight.mode == 6 ? query_ends.size() : 0), "prefix has ", prefixes.size(),
              " numbers with sparse mode ", sight.mode, "; wanted one for each of ", query_ends.size(),
              " sequences in mode 6, none in others");
  constexpr size_t kSequences = 1024;
  constexpr int64_t kTokens = int64_t{1} << 20, kHead = 768, kHeads = 256, kMask = 2048;
  TORCH_CHECK(!query_ends.empty() && query_ends.size() == key_ends.size() && query_ends.size() <= kSequences,
              "actual_seq_qlen has ", query_ends.size(), " sequences, actual_seq_kvlen ", key_ends.size(),
              "; wanted equal numbers from 1 to ", kSequences);
  TORCH_CHECK(std::is_sorted(query_ends.begin(), query_ends.end()) && std::is_sorted(key_ends.begin(), key_ends.end()),
              "actual_seq_qlen and actual_seq_kvlen are cumulative lengths: wanted ascending");
  TORCH_CHECK(query_ends.back() == query.size(0) && key_ends.back() == key.size(0), "the sequences end at ",
              query_ends.back(), " and ", key_ends.back(), "; there are ", query.size(0), " queries and ", key.size(0),
              " keys");
  TORCH_CHECK(query.size(0) <= kTokens && key.size(0) <= kTokens, query.size(0), " queries and ", key.size(0),
              " keys; wanted at most ", kTokens);
  TORCH_CHECK(query.size(2) == key.size(2) && key.size(2) >= value.size(2) && query.size(2) <= kHead, "heads of ",
              query.size(2), ", ", key.size(2), " and ", value.size(2),
              "; wanted equal queries and keys, values no larger, at most ", kHead);
  TORCH_CHECK(query.size(1) <= kHeads && query.size(1) % key.size(1) == 0, query.size(1), " query heads on ",
              key.size(1), "; wanted a multiple, at most ", kHeads);
  const int64_t rows = sight.mode == 6 ? kMask + kMask / 2 : kMask;
  const bool has_mask = sight.mask && sight.mask->size(-1) == kMask && sight.mask->size(-2) == rows;
  TORCH_CHECK(sight.mode < 2 || has_mask, "sparse mode ", sight.mode, " wants the mask of ", rows, " x ", kMask);
}

// The interface saves a maximum and a sum, [..., 8] with equal columns, where exp(score - maximum) / sum is
// the probability. With logsumexp as the maximum, the sum is one.
Tensor LogSum(const Tensor& maximum, const Tensor& sum) { return maximum.select(-1, 0) + sum.select(-1, 0).log(); }

void KeepLogSum(const Tensor& log_sum, const Tensor& maximum, const Tensor& sum) {
  maximum.copy_(log_sum.unsqueeze(-1).expand_as(maximum));
  sum.fill_(1);
}

// Sequence `index` of a packed tensor [t, n, d], as [1, n, s, d]; `ends` are cumulative lengths.
Tensor Sequence(const Tensor& packed, const Ints& ends, size_t index) {
  const int64_t begin = index == 0 ? 0 : ends.at(index - 1);
  return packed.slice(0, begin, ends.at(index)).transpose(0, 1).unsqueeze(0);
}

// The statistics of sequence `index`, [1, n, s, 8], of all in [t, n, 8]: unless told otherwise the operator
// writes them sequence by sequence and, within one, head by head, whatever the shape says.
Tensor SequenceStatistics(const Tensor& all, const Ints& ends, size_t index) {
  const int64_t begin = index == 0 ? 0 : ends.at(index - 1), size = ends.at(index) - begin;
  const int64_t heads = all.size(1);
  return all.view({-1, all.size(2)}).narrow(0, begin * heads, size * heads).view({1, heads, size, all.size(2)});
}

// The number of scores of sequence `index`, over all heads of `packed`.
int64_t ScoresOf(const Tensor& packed, const Ints& query_ends, const Ints& key_ends, size_t index) {
  const auto length = [&](const Ints& ends) { return ends.at(index) - (index == 0 ? 0 : ends.at(index - 1)); };
  return packed.size(1) * length(query_ends) * length(key_ends);
}

}  // namespace

OP(aclnnFlashAttentionScore,
   [](Tensor query, Tensor key, Tensor value, Optional<Tensor> shift, Optional<Tensor> dropped, Optional<Tensor>,
      Optional<Tensor> mask, Optional<Ints> prefix, double scale, double keep, int64_t before, int64_t after,
      int64_t heads, std::string layout, int64_t, int64_t mode, Tensor maximum, Tensor sum, Optional<Tensor>,
      Tensor out) {
     const Scores scores{
         .sight = {.mask = mask, .mode = mode, .before = before, .after = after, .prefix = prefix.value_or(Ints())},
         .scale = scale,
         .dropout = {.kept = dropped, .keep = keep},
         .shift = shift};
     const int64_t key_heads = KeyHeads(query, key, layout, heads);
     const Tensor q = Inside(query, layout, heads), k = Inside(key, layout, key_heads);
     Refuse(scores, q, k);
     const Tensor log_sum = at::empty(maximum.sizes().slice(0, 3), at::kFloat);
     Forward(q, k, Inside(value, layout, key_heads), scores, Inside(out, layout, heads), log_sum);
     KeepLogSum(log_sum, maximum, sum);
   })
OP(aclnnFlashAttentionScoreGrad,
   [](Tensor query, Tensor key, Tensor value, Tensor grad, Optional<Tensor> shift, Optional<Tensor> dropped,
      Optional<Tensor>, Optional<Tensor> mask, Tensor maximum, Tensor sum, Optional<Tensor>, Tensor out,
      Optional<Ints> prefix, double scale, double keep, int64_t before, int64_t after, int64_t heads,
      std::string layout, int64_t, int64_t mode, Tensor grad_query, Tensor grad_key, Tensor grad_value,
      Optional<Tensor> grad_shift) {
     const Scores scores{
         .sight = {.mask = mask, .mode = mode, .before = before, .after = after, .prefix = prefix.value_or(Ints())},
         .scale = scale,
         .dropout = {.kept = dropped, .keep = keep},
         .shift = shift};
     const int64_t key_heads = KeyHeads(query, key, layout, heads);
     const auto inside = [&](const Tensor& x, int64_t count) { return Inside(x, layout, count); };
     const Tensor q = inside(query, heads), k = inside(key, key_heads);
     Refuse(scores, q, k);
     Backward(q, k, inside(value, key_heads), scores, inside(out, heads), LogSum(maximum, sum), inside(grad, heads),
              {.query = inside(grad_query, heads),
               .key = inside(grad_key, key_heads),
               .value = inside(grad_value, key_heads),
               .shift = grad_shift});
   })

OP(aclnnFlashAttentionVarLenScore,
   [](Tensor query, Tensor key, Tensor value, Optional<Tensor> shift, Optional<Tensor> dropped, Optional<Tensor>,
      Optional<Tensor> mask, Optional<Ints> prefix, Ints query_ends, Ints key_ends, double scale, double keep,
      int64_t before, int64_t after, int64_t, std::string, int64_t, int64_t mode, Tensor maximum, Tensor sum,
      Optional<Tensor>, Tensor out) {
     Scores scores{.sight = {.mask = mask, .mode = mode, .before = before, .after = after},
                   .scale = scale,
                   .dropout = {.kept = dropped, .keep = keep},
                   .shift = shift};
     const Ints prefixes = prefix.value_or(Ints());
     RefusePacked(query, key, value, scores, prefixes, query_ends, key_ends);
     Refuse(scores, query, key);
     for (size_t i = 0; i < query_ends.size(); ++i) {
       const Tensor own = Sequence(query, query_ends, i);
       if (own.size(2) == 0) continue;
       if (!prefixes.empty()) scores.sight.prefix = {prefixes.at(i)};
       const Tensor log_sum = at::empty(own.sizes().slice(0, 3), at::kFloat);
       Forward(own, Sequence(key, key_ends, i), Sequence(value, key_ends, i), scores, Sequence(out, query_ends, i),
               log_sum);
       KeepLogSum(log_sum, SequenceStatistics(maximum, query_ends, i), SequenceStatistics(sum, query_ends, i));
       scores.before += ScoresOf(query, query_ends, key_ends, i);
     }
   })
OP(aclnnFlashAttentionUnpaddingScoreGrad,
   [](Tensor query, Tensor key, Tensor value, Tensor grad, Optional<Tensor> shift, Optional<Tensor> dropped,
      Optional<Tensor>, Optional<Tensor> mask, Tensor maximum, Tensor sum, Optional<Tensor>, Tensor out,
      Optional<Ints> prefix, Ints query_ends, Ints key_ends, double scale, double keep, int64_t before, int64_t after,
      int64_t, std::string, int64_t, int64_t mode, Tensor grad_query, Tensor grad_key, Tensor grad_value,
      Optional<Tensor>) {
     Scores scores{.sight = {.mask = mask, .mode = mode, .before = before, .after = after},
                   .scale = scale,
                   .dropout = {.kept = dropped, .keep = keep},
                   .shift = shift};
     const Ints prefixes = prefix.value_or(Ints());
     RefusePacked(query, key, value, scores, prefixes, query_ends, key_ends);
     Refuse(scores, query, key);
     for (size_t i = 0; i < query_ends.size(); ++i) {
       const Tensor log_sum =
           LogSum(SequenceStatistics(maximum, query_ends, i), SequenceStatistics(sum, query_ends, i));
       if (log_sum.numel() == 0) {  // its keys are seen by nobody
         Sequence(grad_key, key_ends, i).zero_();
         Sequence(grad_value, key_ends, i).zero_();
         continue;
       }
       if (!prefixes.empty()) scores.sight.prefix = {prefixes.at(i)};
       Backward(Sequence(query, query_ends, i), Sequence(key, key_ends, i), Sequence(value, key_ends, i), scores,
                Sequence(out, query_ends, i), log_sum, Sequence(grad, query_ends, i),
                {.query = Sequence(grad_query, query_ends, i),
                 .key = Sequence(grad_key, key_ends, i),
                 .value = Sequence(grad_value, key_ends, i)});
       scores.before += ScoresOf(query, query_ends, key_ends, i);
     }
   })
