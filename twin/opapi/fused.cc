// Fused transformer operators other than attention: RMS norm, gated activation, rotary embedding, token
// permute and unpermute, grouped matmul. The backward stands beside the forward. Quantised variants and
// padded routing are refused by name, not ignored.
#include <ATen/ATen.h>

#include "twin/opapi/operator.h"

TWIN_OPERATOR_WORDS

namespace {

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

void RefusePadding(bool padded) { TORCH_CHECK(!padded, "padded routing is not supported by the CANN twin"); }

// Rows of `permuted` at `where`, zeros for dropped ones. [where.numel(), width]
Tensor TakeRows(const Tensor& permuted, const Tensor& where) {
  const Tensor index = where.to(at::kLong);
  const Tensor there = index < permuted.size(0);
  if (permuted.size(0) == 0) return at::zeros({index.numel(), permuted.size(1)}, permuted.options());
  return permuted.index_select(0, index.clamp_max(permuted.size(0) - 1)) * there.unsqueeze(1);
}

// Where each group ends, from cumulative sums (type 0) or sizes (type 1).
Ints GroupEnds(const Tensor& groups, int64_t type) {
  TORCH_CHECK(type == 0 || type == 1, "group list type ", type, " is not supported by the CANN twin; 0 and 1 are");
  const Tensor ends = (type == 1 ? groups.cumsum(0) : groups).to(at::kLong).contiguous();
  return {ends.const_data_ptr<int64_t>(), ends.const_data_ptr<int64_t>() + ends.numel()};
}

// Item `group` of a list of matrices, or of one tensor that stacks them.
Tensor OfGroup(const Tensors& list, int64_t group) {
  return list.size() == 1 && list[0].dim() == 3 ? list[0][group] : list.at(group);
}

void Product(const Tensor& x, const Tensor& weight, const Tensors& bias, int64_t group, Tensor out) {
  at::mm_out(out, x, weight);
  if (bias.empty()) return;
  out.add_(bias.size() == 1 && bias[0].dim() == 2 ? bias[0][group] : bias.at(group));
}

// group_type -1: one matmul per item · 0: rows of x in groups, one weight each · 2: the inner dim in groups,
// one output each
void GroupedMatMul(const Tensors& x, const Tensors& weight, const Tensors& bias, const Optional<Tensor>& groups,
                   int64_t group_type, int64_t list_type, const Tensors& out) {
  if (!groups || groups->numel() == 0) {
    for (size_t i = 0; i < x.size(); ++i) Product(x[i], OfGroup(weight, i), bias, i, out.at(i));
    return;
  }
  TORCH_CHECK(x.size() == 1, x.size(), " tensors with a group list are not supported by the CANN twin; one is");
  int64_t begin = 0, group = 0;
  for (const int64_t end : GroupEnds(*groups, list_type)) {
    if (group_type == 2) {
      Tensor result = out.at(0)[group];
      at::mm_out(result, x[0].slice(1, begin, end), weight.at(0).slice(0, begin, end));
    } else {
      const Tensor result = out.size() == 1 ? out[0].slice(0, begin, end) : out.at(group);
      Product(x[0].slice(0, begin, end), OfGroup(weight, group), bias, group, result);
    }
    begin = end;
    ++group;
  }
}

void RefuseQuantised(std::initializer_list<const Optional<Tensors>*> lists, int64_t activation) {
  for (const Optional<Tensors>* list : lists) {
    TORCH_CHECK(!*list || (*list)->empty(), "quantised grouped matmul is not supported by the CANN twin");
  }
  TORCH_CHECK(activation == 0, "an activation after grouped matmul is not supported by the CANN twin");
}

}  // namespace

OP(aclnnRmsNorm, [](Tensor x, Tensor gamma, double eps, Tensor out, Tensor rstd) { RmsNorm(x, gamma, eps, out, rstd); })
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

OP(aclnnRotaryPositionEmbedding,
   [](Tensor x, Tensor cos, Tensor sin, int64_t mode, Tensor out) { out.copy_(x * cos + RotateHalf(x, mode) * sin); })
OP(aclnnRotaryPositionEmbeddingGrad, [](Tensor grad, Tensor cos, Tensor sin, Optional<Tensor> x, int64_t mode,
                                        Tensor grad_x, Optional<Tensor> grad_cos, Optional<Tensor> grad_sin) {
  grad_x.copy_(grad * cos - RotateHalf(grad * sin, mode));  // adjoint: the inverse rotation
  if (!x) return;
  if (grad_cos) grad_cos->copy_((grad * *x).sum_to_size(cos.sizes()));
  if (grad_sin) grad_sin->copy_((grad * RotateHalf(*x, mode)).sum_to_size(sin.sizes()));
})

OP(aclnnMoeTokenPermute,
   [](Tensor tokens, Tensor experts, int64_t wanted, bool padded, Tensor permuted, Tensor sorted) {
     RefusePadding(padded);
     const int64_t choices = experts.dim() == 1 ? 1 : experts.size(1);
     const Tensor order = experts.flatten().argsort(/*stable=*/true, 0, /*descending=*/false);
     permuted.copy_(tokens.index_select(0, order.slice(0, 0, wanted).floor_divide(choices)));
     sorted.copy_(order.argsort());  // the position of each (token, choice) after sorting
   })
OP(aclnnMoeTokenPermuteGrad, [](Tensor grad, Tensor sorted, int64_t choices, bool padded, Tensor grad_tokens) {
  RefusePadding(padded);
  grad_tokens.copy_(TakeRows(grad, sorted).unflatten(0, {-1, choices}).sum(1));
})
OP(aclnnMoeTokenUnpermute,
   [](Tensor permuted, Tensor sorted, Optional<Tensor> weights, bool padded, Optional<Ints>, Tensor tokens) {
     RefusePadding(padded);
     Tensor parts = TakeRows(permuted, sorted).unflatten(0, {-1, weights ? weights->size(1) : 1});
     if (weights) parts = parts * weights->unsqueeze(-1);
     tokens.copy_(parts.sum(1));
   })
OP(aclnnMoeTokenUnpermuteGrad, [](Tensor permuted, Tensor grad, Tensor sorted, Optional<Tensor> weights, bool padded,
                                  Optional<Ints>, Tensor grad_permuted, Optional<Tensor> grad_weights) {
  RefusePadding(padded);
  const int64_t choices = weights ? weights->size(1) : 1;
  const Tensor whole = grad.repeat_interleave(choices, 0);  // [tokens * choices, width]
  const Tensor parts = weights ? whole * weights->reshape({-1, 1}) : whole;
  const Tensor index = sorted.to(at::kLong);
  const Tensor kept = (index < permuted.size(0)).nonzero().flatten();
  grad_permuted.zero_().index_copy_(0, index.index_select(0, kept),
                                    parts.index_select(0, kept).to(grad_permuted.scalar_type()));
  if (weights && grad_weights) {
    grad_weights->copy_((whole * TakeRows(permuted, sorted)).sum(1).view_as(*grad_weights));
  }
})

#define GROUPED_ARGUMENTS                                                                                   \
  Tensors x, Tensors weight, Optional<Tensors> bias, Optional<Tensors> scale, Optional<Tensors> offset,     \
      Optional<Tensors> antiquant_scale, Optional<Tensors> antiquant_offset, Optional<Tensors> token_scale, \
      Optional<Tensor> groups, Optional<Tensors> activation_input, Optional<Tensors> activation_scale,      \
      Optional<Tensors> activation_offset, int64_t, int64_t group_type, int64_t list_type, int64_t activation
#define GROUPED_BODY                                                                                      \
  RefuseQuantised({&scale, &offset, &antiquant_scale, &antiquant_offset, &token_scale, &activation_input, \
                   &activation_scale, &activation_offset},                                                \
                  activation);                                                                            \
  GroupedMatMul(x, weight, bias.value_or(Tensors()), groups, group_type, list_type, out)

OP(aclnnGroupedMatmulV4, [](GROUPED_ARGUMENTS, Tensors out, Optional<Tensors>, Optional<Tensors>) { GROUPED_BODY; })
OP(aclnnGroupedMatmulV5,
   [](GROUPED_ARGUMENTS, Optional<Ints>, Tensors out, Optional<Tensors>, Optional<Tensors>) { GROUPED_BODY; })
