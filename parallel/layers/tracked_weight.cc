#include "parallel/layers/tracked_weight.h"

#include <torch/csrc/autograd/custom_function.h>

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Never the weight's own memory, which may hold other weights by the time of the backward pass.
at::Tensor InFp32(const Weight& weight) { return weight.value.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true); }

struct TrackedWeightFunction : torch::autograd::Function<TrackedWeightFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& /*activation*/, const Weight* weight) {
    context->saved_data["weight"] = reinterpret_cast<int64_t>(weight);
    return InFp32(*weight);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto* weight = reinterpret_cast<const Weight*>(context->saved_data["weight"].toInt());
    at::Tensor sum = weight->gradient_sum();
    sum.add_(gradients[0]);
    return {at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor TrackedWeight(const Weight& weight, const at::Tensor& activation) {
  if (!weight.trained()) return InFp32(weight);
  return TrackedWeightFunction::apply(activation, &weight);
}

}  // namespace trireme
