#include "ops/grouped_linear/grouped_bias.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/base/error.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct SavedBias : torch::CustomClassHolder {
  const Weight* bias = nullptr;
  GroupEnds ends;
  bool weighted = false;
  bool adds = true;

  // [rows] the expert of each row; rows that belong to none get the number of experts.
  at::Tensor ExpertOf(const at::Tensor& y) const {
    const at::Tensor rows = at::arange(y.size(0), y.options().dtype(at::kLong));
    return at::searchsorted(ends->On(y.device()), rows, /*out_int32=*/false, /*right=*/true);
  }
  // [rows, out] fp32
  at::Tensor Values(const at::Tensor& expert_of) const {
    const at::Tensor& value = bias->value;
    return at::cat({value, at::zeros({1, value.size(1)}, value.options())}).index_select(0, expert_of).to(at::kFloat);
  }
  // gradient: [rows, out] fp32, of the values above
  void AddGradient(const at::Tensor& expert_of, const at::Tensor& gradient) const {
    const int64_t experts = bias->value.size(0);
    const at::Tensor sums = at::zeros({experts + 1, gradient.size(1)}, gradient.options());
    bias->gradient_sum().add_(at::index_add(sums, 0, expert_of, gradient).narrow(0, 0, experts));
  }
};

// weights: [rows, 1] fp32; not weighted: any tensor, for autograd takes no undefined one.
struct GroupedBiasFunction : torch::autograd::Function<GroupedBiasFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& y, const at::Tensor& weights,
                            const c10::intrusive_ptr<SavedBias>& saved) {
    context->saved_data["saved"] = c10::IValue::make_capsule(saved);
    context->save_for_backward({weights});
    if (!saved->adds) return y.view_as(y);
    const at::Tensor values = saved->Values(saved->ExpertOf(y));
    return y + (saved->weighted ? values * weights : values).to(y.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto holder = context->saved_data["saved"].toCapsule();
    const auto* saved = static_cast<SavedBias*>(holder.get());
    const at::Tensor weights = context->get_saved_variables()[0];
    const at::Tensor expert_of = saved->ExpertOf(gradients[0]), gradient = gradients[0].to(at::kFloat);
    if (saved->bias->trained()) saved->AddGradient(expert_of, saved->weighted ? gradient * weights : gradient);
    const bool weighs = saved->weighted && saved->adds;
    const at::Tensor of_weights =
        weighs ? (gradient * saved->Values(expert_of)).sum(-1, /*keepdim=*/true) : at::Tensor();
    return {gradients[0], of_weights, at::Tensor()};
  }
};

at::Tensor WithBias(const at::Tensor& y, const at::Tensor* weights, const Weight& bias, const GroupEnds& ends,
                    bool adds) {
  TRIREME_CHECK(ends->experts() == bias.value.size(0)) << ends->experts() << " groups do not match " << bias.name;
  auto saved = c10::make_intrusive<SavedBias>();
  saved->bias = &bias;
  saved->ends = ends;
  saved->weighted = weights != nullptr;
  saved->adds = adds;
  return GroupedBiasFunction::apply(y, weights != nullptr ? weights->unsqueeze(1) : at::empty({0}, y.options()), saved);
}

}  // namespace

at::Tensor AddGroupedBias(const at::Tensor& y, const Weight& bias, const GroupEnds& ends) {
  return WithBias(y, nullptr, bias, ends, /*adds=*/true);
}

at::Tensor AddWeightedGroupedBias(const at::Tensor& y, const at::Tensor& weights, const Weight& bias,
                                  const GroupEnds& ends, bool adds) {
  TRIREME_CHECK(weights.scalar_type() == at::kFloat && weights.size(0) == y.size(0));
  return WithBias(y, &weights, bias, ends, adds);
}

}  // namespace trireme
