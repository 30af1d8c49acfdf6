// Fused operators that the torch_npu wheel requests by their older names alone: masked softmax, FastGelu, Mish,
// ConfusionTransposeD, OneHotD, ApplyAdamW, Cdist, with their gradients. Computed in fp32 where the tensors are
// narrower, and rounded once.
#include <limits>

#include "twin/opapi/named.h"

namespace twin::fused_by_name {
namespace {

using at::Tensor;
using Ints = std::vector<int64_t>;

Tensor In(const NamedCall& call, size_t input) { return WideView(call.inputs.at(input)); }

// Hidden scores are -10000, not -inf: a row with nothing to see is uniform.
void ScaledMaskedSoftmax(const NamedCall& call) {
  const Tensor scores = In(call, 0) * AttributeOr(call, "scale", 1.0f);
  const Tensor hidden = AttributeOr(call, "fixed_triu_mask", false)
                            ? at::ones({scores.size(-2), scores.size(-1)}, at::kBool).triu(1)
                            : View(call.inputs.at(1)).to(at::kBool);
  Put(call, 0, scores.masked_fill(hidden, -10000).softmax(-1));
}
const Named softmax("ScaledMaskedSoftmax", &RunNamed<ScaledMaskedSoftmax>);
void ScaledMaskedSoftmaxGrad(const NamedCall& call) {  // of the output's gradient and the output
  const Tensor dy = In(call, 0), y = In(call, 1);
  const Tensor hidden = AttributeOr(call, "fixed_triu_mask", false)
                            ? at::ones({y.size(-2), y.size(-1)}, at::kBool).triu(1)
                            : View(call.inputs.at(2)).to(at::kBool);
  const Tensor of_scores = y * (dy - (dy * y).sum(-1, true));
  Put(call, 0, of_scores.masked_fill(hidden, 0) * AttributeOr(call, "scale", 1.0f));
}
const Named softmax_grad("ScaledMaskedSoftmaxGrad", &RunNamed<ScaledMaskedSoftmaxGrad>);

constexpr double kFastGelu = 1.702;
void FastGelu(const NamedCall& call) {
  const Tensor x = In(call, 0);
  Put(call, 0, x * (x * kFastGelu).sigmoid());
}
const Named fast_gelu("FastGelu", &RunNamed<FastGelu>);
void FastGeluGrad(const NamedCall& call) {
  const Tensor x = In(call, 1), gate = (x * kFastGelu).sigmoid();
  Put(call, 0, In(call, 0) * gate * (1 + x * kFastGelu * (1 - gate)));
}
const Named fast_gelu_grad("FastGeluGrad", &RunNamed<FastGeluGrad>);

void Mish(const NamedCall& call) { Put(call, 0, at::mish(In(call, 0))); }
const Named mish("Mish", &RunNamed<Mish>);
void MishGrad(const NamedCall& call) { Put(call, 0, at::mish_backward(In(call, 0), In(call, 1))); }
const Named mish_grad("MishGrad", &RunNamed<MishGrad>);

// A permutation of dims before or after a change of shape.
void ConfusionTranspose(const NamedCall& call) {
  const Tensor x = View(call.inputs.at(0));
  const auto order = Attribute<Ints>(call, "perm"), shape = Attribute<Ints>(call, "shape");
  Put(call, 0,
      Attribute<bool>(call, "transpose_first") ? x.permute(order).reshape(shape) : x.reshape(shape).permute(order));
}
const Named confusion_transpose("ConfusionTransposeD", &RunNamed<ConfusionTranspose>);

// Of classes, the value of the class itself and the one of the others. A class outside of [0, depth) is none.
void OneHot(const NamedCall& call) {
  const auto axis = AttributeOr(call, "axis", int64_t{-1});
  const Tensor classes = View(call.inputs.at(0)).to(at::kLong);
  const Tensor hits = classes.unsqueeze(-1) == at::arange(Attribute<int64_t>(call, "depth"));
  Put(call, 0, at::where(hits, In(call, 1), In(call, 2)).movedim(-1, axis));
}
const Named one_hot("OneHotD", &RunNamed<OneHot>);

// The powers are those of the steps before this one.
void ApplyAdamW(const NamedCall& call) {
  TORCH_CHECK(!AttributeOr(call, "amsgrad", false), "ApplyAdamW with amsgrad is not supported by the CANN twin");
  const auto number = [&](size_t input) { return In(call, input).item<double>(); };
  const double lr = number(5), beta1 = number(7), beta2 = number(8);
  const double left1 = 1 - number(3) * beta1, left2 = 1 - number(4) * beta2;
  const Tensor grad = AttributeOr(call, "maximize", false) ? -In(call, 10) : In(call, 10);
  const Tensor m = In(call, 1) * beta1 + grad * (1 - beta1), v = In(call, 2) * beta2 + grad.square() * (1 - beta2);
  const Tensor step = (m / left1) / ((v / left2).sqrt() + number(9));
  Put(call, 0, In(call, 0) * (1 - lr * number(6)) - step * lr);
  Put(call, 1, m);
  Put(call, 2, v);
}
const Named apply_adam_w("ApplyAdamW", &RunNamed<ApplyAdamW>);

// Distances in the norm p, where -1 stands for infinity. Both inputs are broadcast to [.., rows, other rows, width].
double NormOf(const NamedCall& call) {
  const double p = static_cast<double>(Attribute<float>(call, "p"));
  return p == -1 ? std::numeric_limits<double>::infinity() : p;
}
void Cdist(const NamedCall& call) { Put(call, 0, at::norm(In(call, 0) - In(call, 1), NormOf(call), -1)); }
const Named cdist("Cdist", &RunNamed<Cdist>);
void CdistGrad(const NamedCall& call) {  // of the distances' gradient, both inputs and the distances
  const Tensor apart = In(call, 1) - In(call, 2), distance = In(call, 3);
  const double p = NormOf(call);
  const Tensor slope = std::isinf(p) ? apart.sign() * (apart.abs() == distance)
                       : p == 0      ? at::zeros_like(apart)
                                     : apart.sign() * (apart.abs() / distance).pow(p - 1);
  const Tensor still = distance.eq(0).logical_or(apart.eq(0));
  Put(call, 0, (In(call, 0) * slope).masked_fill(still, 0).sum(-2));
}
const Named cdist_grad("CdistGrad", &RunNamed<CdistGrad>);

}  // namespace
}  // namespace twin::fused_by_name
