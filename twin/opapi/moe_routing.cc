// Routing of tokens to experts and back, as inference and training programs call it: gating (softmax or sigmoid, then
// the top k), the permutation by expert, and the weighted sum of what the experts return. Quantising on the way is
// refused by name, not ignored. aclnnMoeToken…, the trainable permutation, is in fused.cc.
#include <ATen/ATen.h>

#include <limits>

#include "twin/opapi/operator.h"

TWIN_OPERATOR_WORDS

namespace {

// By descending value; on ties the first. {values, indices} along the last dim
std::pair<Tensor, Tensor> FirstK(const Tensor& scores, int64_t k) {
  const auto [values, indices] = at::sort(scores, /*stable=*/true, /*dim=*/-1, /*descending=*/true);
  return {values.narrow(-1, 0, k), indices.narrow(-1, 0, k)};
}

// Scores of which all but those of the `kept` best groups are -inf. [rows, experts]
Tensor WithinBestGroups(const Tensor& scores, int64_t kept, int64_t groups, int64_t by_top_two) {
  const Tensor grouped = scores.unflatten(-1, {groups, -1});  // [rows, groups, experts of a group]
  const Tensor level = by_top_two == 0 ? grouped.amax(-1) : FirstK(grouped, 2).first.sum(-1);
  const Tensor left_out = at::ones_like(level, at::kBool).scatter_(-1, FirstK(level, kept).second, false);
  return grouped.masked_fill(left_out.unsqueeze(-1), -std::numeric_limits<double>::infinity()).flatten(-2);
}

// How the rows of x, one for each (token, choice), are sorted by expert.
struct Routes {
  Tensor order;    // the (token, choice) at each sorted position; choices of inactive experts come last
  Tensor experts;  // of each sorted position
  Tensor counts;   // per active expert
  int64_t active = 0;

  Routes(const Tensor& choices, int64_t first, int64_t end) {
    const Tensor flat = choices.flatten().to(at::kLong);
    const Tensor outside = (flat < first).logical_or(flat >= end);
    std::tie(experts, order) = at::sort(flat.masked_fill(outside, std::numeric_limits<int64_t>::max()), true, 0, false);
    counts = at::bincount(flat.masked_select(outside.logical_not()) - first, {}, end - first);
    active = counts.sum().item<int64_t>();
  }
  // Where each of the first `active` positions lies in experts of `capacity` rows each; -1: dropped.
  Tensor Slots(int64_t first, int64_t capacity) const {
    const Tensor expert = experts.narrow(0, 0, active) - first;
    const Tensor within = at::arange(active) - (counts.cumsum(0) - counts).index_select(0, expert);
    return at::where(within < capacity, expert * capacity + within, at::full_like(within, -1));
  }
};

void RefuseQuantisedRouting(bool quantised) {
  TORCH_CHECK(!quantised, "quantised routing is not supported by the CANN twin");
}

// Rows of `from` ([tokens, …]) to the positions of their choices; the rest is zero.
void ExpandRows(const Tensor& from, const Routes& routes, const Tensor& slots, int64_t choices, const Tensor& into) {
  const Tensor flat = into.dim() == from.dim() + 1 ? into.flatten(0, 1) : into;
  const Tensor kept = (slots >= 0).logical_and(slots < flat.size(0)).nonzero().flatten();
  const Tensor source = routes.order.narrow(0, 0, slots.numel()).index_select(0, kept).floor_divide(choices);
  flat.zero_().index_copy_(0, slots.index_select(0, kept), from.index_select(0, source).to(flat.scalar_type()));
}

// Positions of (token, choice) after sorting, -1 where it is dropped; or, scattered, who is at each position.
void PutRows(const Routes& routes, const Tensor& slots, bool scattered, const Tensor& rows) {
  rows.fill_(-1);
  const Tensor order = routes.order.narrow(0, 0, slots.numel());
  if (scattered) {
    rows.narrow(0, 0, slots.numel()).copy_(order);
  } else {
    rows.index_copy_(0, order, slots.to(rows.scalar_type()));
  }
}

// type 0: cumulative · 1: per expert · 2: pairs of an expert and its number, for those that have any
void PutCounts(const Tensor& counts, int64_t first, int64_t type, const Tensor& into) {
  if (type < 2) return void(into.copy_(type == 0 ? counts.cumsum(0) : counts));
  const Tensor used = counts.nonzero().flatten();
  into.zero_().narrow(0, 0, used.numel()).copy_(at::stack({used + first, counts.index_select(0, used)}, 1));
}

struct Combine {
  Optional<Tensor> skip1, skip2, bias, scales, experts;
  // Choices of a token stand `rows` apart in `where` (modes 0 and 1), or side by side (2 and 3).
  void Run(const Tensor& x, const Tensor& where, int64_t mode, const Tensor& out) const {
    const int64_t rows = out.size(0), choices = where.numel() / std::max<int64_t>(rows, 1);
    const Tensor index = (mode < 2 ? where.view({choices, rows}).t() : where.view({rows, choices})).to(at::kLong);
    const Tensor flat = x.flatten(0, -2).to(at::kFloat);
    Tensor parts = flat.index_select(0, index.clamp_min(0).flatten()).view({rows, choices, -1});
    parts = parts * (index >= 0).unsqueeze(-1);
    if (bias) parts = parts + bias->to(at::kFloat).index_select(0, experts->flatten().to(at::kLong)).view_as(parts);
    if (scales) parts = parts * scales->to(at::kFloat).unsqueeze(-1);
    Tensor sum = parts.sum(1);
    for (const Optional<Tensor>* skip : {&skip1, &skip2})
      if (*skip) sum = sum + **skip;
    out.copy_(sum);
  }
};

}  // namespace

OP(aclnnMoeGatingTopKSoftmax,
   [](Tensor x, Optional<Tensor> finished, int64_t k, Tensor y, Tensor experts, Tensor rows) {
     const auto [values, indices] = FirstK(x.to(at::kFloat).softmax(-1), k);
     y.copy_(values);
     experts.copy_(indices);
     if (finished) experts.masked_fill_(finished->unsqueeze(-1), x.size(-1));  // an expert that does not exist
     const int64_t count = rows.numel() / k;
     rows.copy_(at::arange(rows.numel()).view({k, count}).t().reshape(rows.sizes()));
   })

OP(aclnnMoeGatingTopK,
   [](Tensor x, Optional<Tensor> bias, int64_t k, int64_t k_group, int64_t groups, int64_t by_top_two, int64_t renorm,
      int64_t sigmoid, bool wants_scores, double factor, double eps, Tensor y, Tensor experts, Tensor scores) {
     const Tensor wide = x.to(at::kFloat);
     const Tensor normed = sigmoid == 0 ? wide.softmax(-1) : wide.sigmoid();
     Tensor ranked = bias ? normed + bias->to(at::kFloat) : normed;
     if (groups > 1) ranked = WithinBestGroups(ranked, k_group, groups, by_top_two);
     const Tensor indices = FirstK(ranked, k).second;
     Tensor chosen = normed.gather(-1, indices);
     if (sigmoid == 1 || renorm == 1) chosen = chosen / (chosen.sum(-1, true) + eps);
     y.copy_(chosen * factor);
     experts.copy_(indices);
     if (wants_scores) scores.copy_(normed);
   })

OP(aclnnMoeInitRouting, [](Tensor x, Tensor rows, Tensor experts, int64_t active, Tensor expanded_x,
                           Tensor expanded_rows, Tensor expanded_experts) {
  const auto [sorted, order] = at::sort(experts.flatten(), /*stable=*/true, 0, false);
  const Tensor source = rows.flatten().to(at::kLong).index_select(0, order);
  expanded_experts.copy_(sorted);
  expanded_rows.index_copy_(0, source, at::arange(source.numel(), expanded_rows.options()));
  expanded_x.copy_(x.index_select(0, source.narrow(0, 0, expanded_x.size(0)).remainder(x.size(0))));
})
OP(aclnnMoeInitRoutingV2, [](Tensor x, Tensor experts, int64_t active, int64_t capacity, int64_t expert_count,
                             int64_t padded, int64_t count_type, bool wants_before, Tensor expanded_x,
                             Tensor expanded_rows, Optional<Tensor> counts, Optional<Tensor> before) {
  const Routes routes(experts, 0, expert_count > 0 ? expert_count : experts.max().item<int64_t>() + 1);
  const Tensor slots = padded == 1 ? routes.Slots(0, capacity) : at::arange(routes.active);
  ExpandRows(x, routes, slots, experts.size(1), expanded_x);
  PutRows(routes, slots, false, expanded_rows);
  if (count_type > 0 && counts) PutCounts(routes.counts, 0, count_type - 1, *counts);
  if (wants_before && before) before->copy_(routes.counts);
})
OP(aclnnMoeInitRoutingV3, [](Tensor x, Tensor experts, Optional<Tensor> scale, Optional<Tensor> offset, int64_t active,
                             int64_t capacity, int64_t expert_count, int64_t padded, int64_t count_type,
                             bool wants_counts, int64_t quant, Ints range, int64_t scattered, Tensor expanded_x,
                             Tensor expanded_rows, Optional<Tensor> counts, Optional<Tensor> expanded_scale) {
  RefuseQuantisedRouting(quant != -1);
  const Routes routes(experts, range.at(0), range.at(1));
  const Tensor slots = padded == 1 ? routes.Slots(range[0], capacity) : at::arange(routes.active);
  ExpandRows(x, routes, slots, experts.size(1), expanded_x);
  PutRows(routes, slots, scattered == 1, expanded_rows);
  if (wants_counts && counts) PutCounts(routes.counts, range[0], count_type, *counts);
  if (scale && expanded_scale) ExpandRows(*scale, routes, slots, experts.size(1), *expanded_scale);
})

OP(aclnnMoeFinalizeRouting,
   [](Tensor x, Tensor skip1, Optional<Tensor> skip2, Tensor bias, Tensor scales, Tensor where, Tensor experts,
      Tensor out) { Combine{skip1, skip2, bias, scales, experts}.Run(x, where, 0, out); })
OP(aclnnMoeFinalizeRoutingV2, [](Tensor x, Tensor where, Optional<Tensor> skip1, Optional<Tensor> skip2,
                                 Optional<Tensor> bias, Optional<Tensor> scales, Optional<Tensor> experts, int64_t mode,
                                 Tensor out) { Combine{skip1, skip2, bias, scales, experts}.Run(x, where, mode, out); })

// For each expert, how many rows come before the next one's.
OP(aclnnMoeComputeExpertTokens, [](Tensor sorted, int64_t experts, Tensor out) {
  out.copy_(at::bincount(sorted.to(at::kLong), {}, experts).cumsum(0));
})
