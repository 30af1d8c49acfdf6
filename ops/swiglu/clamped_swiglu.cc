#include "ops/swiglu/clamped_swiglu.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/base/error.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Gate and up as they are, and limited; [rows, ffn] fp32 each.
struct GateUp {
  at::Tensor raw_gate, raw_up, gate, up, sigmoid;  // sigmoid(alpha · gate)

  GateUp(const at::Tensor& gate_up, const ClampedSwiGluRule& rule) {
    const at::Tensor pairs = gate_up.to(at::kFloat).unflatten(-1, {gate_up.size(-1) / 2, 2});
    raw_gate = pairs.select(-1, 0);
    raw_up = pairs.select(-1, 1);
    gate = raw_gate.clamp_max(rule.limit);
    up = raw_up.clamp(-rule.limit, rule.limit);
    sigmoid = (gate * rule.alpha).sigmoid_();
  }
  at::Tensor Output() const { return (up + 1) * gate * sigmoid; }
};

struct ClampedSwiGluFunction : torch::autograd::Function<ClampedSwiGluFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate_up, const at::Tensor& weights,
                            const ClampedSwiGluRule& rule) {
    context->save_for_backward({gate_up, weights});
    context->saved_data["limit"] = rule.limit;
    context->saved_data["alpha"] = rule.alpha;
    return WeightedClampedSwiGluAgain(gate_up, weights, rule);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const ClampedSwiGluRule rule{context->saved_data["limit"].toDouble(), context->saved_data["alpha"].toDouble()};
    const GateUp x(saved[0], rule);
    const at::Tensor gradient = gradients[0].to(at::kFloat), weighted = gradient * saved[1].unsqueeze(1);
    const at::Tensor slope = x.sigmoid * (1 + rule.alpha * x.gate * (1 - x.sigmoid));  // of gate · sigmoid
    // A value at its limit still has a gradient, as in torch.
    const at::Tensor of_gate = weighted * (x.up + 1) * slope * (x.raw_gate <= rule.limit);
    const at::Tensor of_up = weighted * x.gate * x.sigmoid * (x.raw_up.abs() <= rule.limit);
    return {at::stack({of_gate, of_up}, -1).flatten(-2).to(saved[0].scalar_type()), (gradient * x.Output()).sum(-1),
            at::Tensor()};
  }
};

}  // namespace

at::Tensor WeightedClampedSwiGlu(const at::Tensor& gate_up, const at::Tensor& weights, const ClampedSwiGluRule& rule) {
  TRIREME_CHECK(weights.scalar_type() == at::kFloat && weights.size(0) == gate_up.size(0));
  return ClampedSwiGluFunction::apply(gate_up, weights, rule);
}

at::Tensor WeightedClampedSwiGluAgain(const at::Tensor& gate_up, const at::Tensor& weights,
                                      const ClampedSwiGluRule& rule) {
  const at::NoGradGuard no_graph;
  return (GateUp(gate_up.detach(), rule).Output() * weights.detach().unsqueeze(1)).to(gate_up.scalar_type());
}

}  // namespace trireme
