#include "parallel/layers/bias.h"

#include <torch/csrc/autograd/custom_function.h>

#include "ops/linear/row_bias.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct AddBiasFunction : torch::autograd::Function<AddBiasFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Weight* bias) {
    context->saved_data["bias"] = reinterpret_cast<int64_t>(bias);
    return x + bias->value;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto* bias = reinterpret_cast<const Weight*>(context->saved_data["bias"].toInt());
    if (bias->trained()) {
      at::Tensor sum = bias->gradient_sum();
      AddSumOfRows(gradients[0], sum);
    }
    return {gradients[0], at::Tensor()};
  }
};

}  // namespace

at::Tensor AddBias(const at::Tensor& x, const Weight* bias) {
  return bias == nullptr ? x : AddBiasFunction::apply(x, bias);
}

}  // namespace trireme
