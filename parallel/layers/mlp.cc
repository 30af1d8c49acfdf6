#include "parallel/layers/mlp.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/swiglu/swiglu.h"
#include "parallel/layers/bias.h"

namespace trireme {
namespace {

constexpr double kSlope = 0.79788456080286535588, kCubic = 0.044715;  // sqrt(2 / pi)

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The approximation with tanh, and its derivative times `gradient`. torch_npu's own operator ignores which of the two
// GELUs is asked for: there it is written out.
at::Tensor GeluTanh(const at::Tensor& x) {
  if (x.is_cpu() || x.is_cuda()) return at::gelu(x, "tanh");
  return x * 0.5 * ((x + x * x * x * kCubic) * kSlope).tanh().add(1);
}

at::Tensor GeluTanhBackward(const at::Tensor& gradient, const at::Tensor& x) {
  if (x.is_cpu() || x.is_cuda()) return at::gelu_backward(gradient, x, "tanh");
  const at::Tensor t = ((x + x * x * x * kCubic) * kSlope).tanh();
  const at::Tensor inner = (x * x * (3 * kCubic)).add(1) * kSlope;
  return gradient * 0.5 * (t.add(1) + x * (t * t).neg().add(1) * inner);
}

// gelu(gate) · up, by the approximation with tanh. Like SwiGlu it saves gate and up alone.
struct GeGluFunction : torch::autograd::Function<GeGluFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate_up) {
    context->save_for_backward({gate_up});
    const auto parts = gate_up.chunk(2, -1);
    return GeluTanh(parts[0]) * parts[1];
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto parts = context->get_saved_variables()[0].chunk(2, -1);
    const at::Tensor gate = GeluTanhBackward(gradients[0] * parts[1], parts[0]);
    return {at::cat({gate, gradients[0] * GeluTanh(parts[0])}, -1)};
  }
};

at::Tensor GeGlu(const at::Tensor& gate_up) { return GeGluFunction::apply(gate_up); }

}  // namespace

MlpBlock::MlpBlock(const std::string& role, const Projection::Place& place, const TensorParallel& parallel,
                   bool recompute, MlpSpec::Activation activation)
    : parallel_(parallel),
      recompute_(recompute),
      activation_(activation),
      gate_up_(place, role + ".gate_up", {role + ".gate", role + ".up"}),
      gate_up_bias_(place.weights.FindOrNull(place.layer.name + "." + role + ".gate_up.bias")),
      down_(place, role + ".down"),
      down_bias_(place.weights.FindOrNull(place.layer.name + "." + role + ".down.bias")) {}

LinearInput MlpBlock::Up(const LinearInput& x, PassContext& pass) const {
  const at::Tensor gate_up = gate_up_.Forward(x, pass, gate_up_bias_);
  const auto activate = activation_ == MlpSpec::Activation::kSilu ? SwiGlu : GeGlu;
  LinearInput activated(activate(gate_up));
  if (recompute_) {
    activated.again = [activate, gate_up = gate_up.detach()] {
      const at::NoGradGuard no_graph;
      return activate(gate_up);
    };
  }
  return activated;
}

at::Tensor MlpBlock::Down(const LinearInput& activated, PassContext& pass) const {
  return AddBias(ReduceFromTensorRegion(down_.Forward(activated, pass), parallel_), down_bias_);
}

}  // namespace trireme
