#include "ops/swiglu.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <torch/csrc/autograd/custom_function.h>

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct SwiGluFunction : torch::autograd::Function<SwiGluFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate_up) {
    context->save_for_backward({gate_up});
    const auto halves = gate_up.chunk(2, -1);
    return at::silu(halves[0]) * halves[1];
  }

  // silu(gate) is computed again: cheaper than keeping it for every layer.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto halves = context->get_saved_variables()[0].chunk(2, -1);
    const at::Tensor gate_gradient = at::silu_backward(gradients[0] * halves[1], halves[0]);
    return {at::cat({gate_gradient, gradients[0] * at::silu(halves[0])}, -1)};
  }
};

}  // namespace

at::Tensor SwiGlu(const at::Tensor& gate_up) { return SwiGluFunction::apply(gate_up); }

}  // namespace trireme
