#include "ops/linear.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/weight_gradients.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void AddWeightGradient(const Weight& weight, const at::Tensor& output_gradient, const at::Tensor& x) {
  if (!weight.trained()) return;
  at::Tensor sum = weight.gradient;
  if (x.scalar_type() == at::kFloat) {
    sum.addmm_(output_gradient.t(), x);
  } else {
    sum.add_(at::mm(output_gradient.t(), x));
  }
}

void AddBiasGradient(const Weight& bias, const at::Tensor& output_gradient) {
  if (!bias.trained()) return;
  at::Tensor sum = bias.gradient;
  sum.add_(output_gradient.sum(0, /*keepdim=*/false, at::kFloat));
}

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Weight* weight,
                            const Weight* bias) {
    context->save_for_backward({x});
    context->saved_data["weight"] = reinterpret_cast<int64_t>(weight);
    context->saved_data["bias"] = reinterpret_cast<int64_t>(bias);
    if (bias == nullptr) return at::mm(x, weight->value.t());
    return at::addmm(bias->value, x, weight->value.t());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor output_gradient = gradients[0].contiguous();
    const at::Tensor x = context->get_saved_variables()[0];
    const auto* weight = reinterpret_cast<const Weight*>(context->saved_data["weight"].toInt());
    const auto* bias = reinterpret_cast<const Weight*>(context->saved_data["bias"].toInt());
    at::Tensor input_gradient = at::mm(output_gradient, weight->value);
    WeightGradients::Add([weight, bias, output_gradient, x] {
      AddWeightGradient(*weight, output_gradient, x);
      if (bias != nullptr) AddBiasGradient(*bias, output_gradient);
    });
    return {input_gradient, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor Linear(const at::Tensor& x, const Weight& weight, const Weight* bias) {
  return LinearFunction::apply(x, &weight, bias);
}

}  // namespace trireme
