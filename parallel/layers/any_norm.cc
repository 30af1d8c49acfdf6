#include "parallel/layers/any_norm.h"

#include <ATen/ops/layer_norm.h>
#include <torch/csrc/autograd/custom_function.h>

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// x · weight + bias, whose gradients are added to their sums.
struct ScaleShiftFunction : torch::autograd::Function<ScaleShiftFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Weight* weight, const Weight* bias) {
    context->save_for_backward({x});
    context->saved_data["weight"] = reinterpret_cast<int64_t>(weight);
    context->saved_data["bias"] = reinterpret_cast<int64_t>(bias);
    return x * weight->value.to(at::kFloat) + bias->value.to(at::kFloat);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor x = context->get_saved_variables()[0];
    const auto* weight = reinterpret_cast<const Weight*>(context->saved_data["weight"].toInt());
    const auto* bias = reinterpret_cast<const Weight*>(context->saved_data["bias"].toInt());
    if (weight->trained()) weight->gradient_sum().add_((gradients[0] * x).sum(0));
    if (bias->trained()) bias->gradient_sum().add_(gradients[0].sum(0));
    return {gradients[0] * weight->value.to(at::kFloat), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

AnyNorm::AnyNorm(const Weights& weights, const std::string& role, double eps)
    : weight_(weights.Find(role + ".weight")), bias_(weights.FindOrNull(role + ".bias")), eps_(eps) {}

at::Tensor AnyNorm::Forward(const at::Tensor& x) const {
  if (bias_ == nullptr) return RmsNorm(x, weight_, eps_);
  const at::Tensor standard = at::layer_norm(x.to(at::kFloat), {x.size(-1)}, {}, {}, eps_);  // mean 0, variance 1
  return ScaleShiftFunction::apply(standard, &weight_, bias_).to(x.scalar_type());
}

AddedNorm AnyNorm::Carry(const at::Tensor& x) const {
  return bias_ == nullptr ? CarriedRmsNorm(x, weight_, eps_) : AddedNorm{x, Forward(x)};
}

AddedNorm AnyNorm::Add(const at::Tensor& residual, const at::Tensor& branch) const {
  if (bias_ == nullptr) return AddRmsNorm(residual, branch, weight_, eps_);
  const at::Tensor sum = residual + branch;
  return {sum, Forward(sum)};
}

}  // namespace trireme
