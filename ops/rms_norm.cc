#include "ops/rms_norm.h"

#include <torch/csrc/autograd/custom_function.h>

#include "ops/weight_gradients.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct RmsNormFunction : torch::autograd::Function<RmsNormFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Weight* weight, double eps) {
    const at::Tensor wide = x.to(at::kFloat);
    const at::Tensor scale = wide.square().mean(-1, /*keepdim=*/true).add_(eps).rsqrt_();  // [..., 1]
    context->save_for_backward({x, scale});
    context->saved_data["weight"] = reinterpret_cast<int64_t>(weight);
    // As transformers does it: the normalised value is rounded before it meets the weight.
    return (wide * scale).to(x.scalar_type()) * weight->value;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto* weight = reinterpret_cast<const Weight*>(context->saved_data["weight"].toInt());
    const at::Tensor normalised = saved[0].to(at::kFloat) * saved[1];
    const at::Tensor output_gradient = gradients[0].to(at::kFloat);
    if (weight->trained()) {
      at::Tensor sum = weight->gradient;
      sum.add_((output_gradient * normalised).reshape({-1, sum.size(0)}).sum(0));
    }
    const at::Tensor inner = output_gradient * weight->value.to(at::kFloat);
    const at::Tensor shared = (inner * normalised).mean(-1, /*keepdim=*/true);
    const at::Tensor input_gradient = (inner - normalised * shared) * saved[1];
    return {input_gradient.to(saved[0].scalar_type()), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor RmsNorm(const at::Tensor& x, const Weight& weight, double eps) {
  return RmsNormFunction::apply(x, &weight, eps);
}

}  // namespace trireme
