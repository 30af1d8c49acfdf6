#include "ops/linear.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/choose.h"
#include "ops/product.h"
#include "ops/weight_gradients.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void AddBiasGradient(const Weight& bias, const at::Tensor& output_gradient) {
  if (!bias.trained()) return;
  at::Tensor sum = bias.gradient_sum();
  sum.add_(output_gradient.sum(0, /*keepdim=*/false, at::kFloat));
}

struct KeptLinear : torch::CustomClassHolder {
  const Weight *weight, *bias;
  std::function<at::Tensor()> again;
};

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const LinearInput& input,
                            const Weight* weight, const Weight* bias) {
    auto kept = c10::make_intrusive<KeptLinear>();
    kept->weight = weight;
    kept->bias = bias;
    kept->again = input.again;
    // A frozen weight needs no input either.
    if (weight->trained() && !input.again) context->save_for_backward({x});
    context->saved_data["kept"] = c10::IValue::make_capsule(kept);
    if (bias == nullptr) return at::mm(x, weight->value.t());
    return at::addmm(bias->value, x, weight->value.t());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor output_gradient = gradients[0].contiguous();
    const variable_list saved = context->get_saved_variables();
    const auto holder = context->saved_data["kept"].toCapsule();
    auto* kept = static_cast<KeptLinear*>(holder.get());
    const Weight *weight = kept->weight, *bias = kept->bias;
    at::Tensor input_gradient = at::mm(output_gradient, weight->value);
    const at::Tensor x = saved.empty() ? at::Tensor() : saved[0];
    WeightGradients::Add([weight, bias, output_gradient, x, again = std::move(kept->again)] {
      if (weight->trained()) AddWeightGradient(*weight, output_gradient, again ? again() : x);
      if (bias != nullptr) AddBiasGradient(*bias, output_gradient);
    });
    return {input_gradient, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

void AddWeightGradient(const Weight& weight, const at::Tensor& output_gradient, const at::Tensor& x) {
  if (!weight.trained()) return;
  const bool add = !weight.TakeStale();
  at::Tensor sum = weight.gradient;
  if (x.scalar_type() == at::kFloat) {
    sum.addmm_(output_gradient.t(), x, /*beta=*/add ? 1 : 0);
  } else if (FastOnCpu(x) && x.is_contiguous() && output_gradient.is_contiguous() && sum.is_contiguous()) {
    // Summed in fp32 by the product itself: no rounding on the way, and no pass for the sum.
    Product(Factor<cpu::Bf16>{Data<cpu::Bf16>(output_gradient), output_gradient.size(1), true},
            Factor<cpu::Bf16>{Data<cpu::Bf16>(x), x.size(1)},
            {.m = sum.size(0), .n = sum.size(1), .k = x.size(0), .stride = sum.size(1), .add = add},
            Data<float>(sum));
  } else {
    const at::Tensor product = at::mm(output_gradient.t(), x);
    if (add) {
      sum.add_(product);
    } else {
      sum.copy_(product);
    }
  }
}

at::Tensor Linear(const LinearInput& x, const Weight& weight, const Weight* bias) {
  return LinearFunction::apply(x.value, x, &weight, bias);
}

}  // namespace trireme
