#include "ops/swiglu/weighted_swiglu.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/base/error.h"
#include "ops/cuda/launch.h"
#include "ops/element_types.h"
#include "ops/operator.h"
#include "ops/swiglu/cpu.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Gradients {
  at::Tensor gate_up, weights;
};

at::Tensor ReferenceForwardOfWeightedSwiglu(const at::Tensor& gate_up, const at::Tensor& weights) {
  const auto halves = gate_up.to(at::kFloat).chunk(2, -1);
  return (at::silu(halves[0]) * halves[1] * weights.unsqueeze(1)).to(gate_up.scalar_type());
}

Gradients ReferenceBackwardOfWeightedSwiglu(const at::Tensor& gate_up, const at::Tensor& weights,
                                            const at::Tensor& gradient) {
  const auto halves = gate_up.to(at::kFloat).chunk(2, -1);
  const at::Tensor silu = at::silu(halves[0]), wide = gradient.to(at::kFloat);
  const at::Tensor weighted = wide * weights.unsqueeze(1);
  const at::Tensor gate_gradient = at::silu_backward(weighted * halves[1], halves[0]);
  return {at::cat({gate_gradient, weighted * silu}, -1).to(gate_up.scalar_type()), (wide * silu * halves[1]).sum(-1)};
}

at::Tensor FastForwardOfWeightedSwiglu(const at::Tensor& gate_up, const at::Tensor& weights) {
  const int64_t rows = gate_up.size(0), ffn = gate_up.size(1) / 2;
  const at::Tensor out = at::empty({rows, ffn}, gate_up.options());
  ByType(gate_up, [&](auto type) {
    using T = decltype(type);
    at::parallel_for(0, rows, GrainOfRows(ffn), [&](int64_t begin, int64_t end) {
      cpu::WeightedSwiGluForward(Data<T>(gate_up), Data<float>(weights), ffn, {begin, end}, Data<T>(out));
    });
  });
  return out;
}

Gradients FastBackwardOfWeightedSwiglu(const at::Tensor& gate_up, const at::Tensor& weights,
                                       const at::Tensor& gradient) {
  const int64_t rows = gate_up.size(0), ffn = gate_up.size(1) / 2;
  const Gradients out{at::empty_like(gate_up), at::empty_like(weights)};
  ByType(gate_up, [&](auto type) {
    using T = decltype(type);
    at::parallel_for(0, rows, GrainOfRows(ffn), [&](int64_t begin, int64_t end) {
      cpu::WeightedSwiGluBackward(Data<T>(gate_up), Data<float>(weights), Data<T>(gradient), ffn, {begin, end},
                                  Data<T>(out.gate_up), Data<float>(out.weights));
    });
  });
  return out;
}

at::Tensor CudaForwardOfWeightedSwiglu(const at::Tensor& gate_up, const at::Tensor& weights) {
  const int64_t rows = gate_up.size(0), ffn = gate_up.size(1) / 2;
  const at::Tensor out = at::empty({rows, ffn}, gate_up.options());
  CheckLaunch(CudaKernels().weighted_swiglu(gate_up.data_ptr(), Data<float>(weights), out.data_ptr(), rows, ffn,
                                            IsBf16(gate_up), CudaStream()),
              "weighted_swiglu");
  return out;
}

Gradients CudaBackwardOfWeightedSwiglu(const at::Tensor& gate_up, const at::Tensor& weights,
                                       const at::Tensor& gradient) {
  const int64_t rows = gate_up.size(0), ffn = gate_up.size(1) / 2;
  const Gradients out{at::empty_like(gate_up), at::empty_like(weights)};
  CheckLaunch(CudaKernels().weighted_swiglu_backward(gate_up.data_ptr(), Data<float>(weights), gradient.data_ptr(),
                                                     out.gate_up.data_ptr(), Data<float>(out.weights), rows, ffn,
                                                     IsBf16(gate_up), CudaStream()),
              "weighted_swiglu");
  return out;
}

const ImplementationList<at::Tensor, decltype(&ReferenceForwardOfWeightedSwiglu),
                         decltype(&ReferenceBackwardOfWeightedSwiglu)>
    kWeightedSwiGlu{"weighted_swiglu",
                    {{"cpu", WhyNoLoops, FastForwardOfWeightedSwiglu, FastBackwardOfWeightedSwiglu},
                     {"cuda", WhyNoCudaKernel, CudaForwardOfWeightedSwiglu, CudaBackwardOfWeightedSwiglu},
                     {"aten", nullptr, ReferenceForwardOfWeightedSwiglu, ReferenceBackwardOfWeightedSwiglu}}};

struct WeightedSwiGluFunction : torch::autograd::Function<WeightedSwiGluFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate_up, const at::Tensor& weights) {
    context->save_for_backward({gate_up, weights});
    return WeightedSwiGluAgain(gate_up, weights);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor gradient = gradients[0].contiguous();
    const Gradients found = kWeightedSwiGlu.Choose(saved[0]).backward(saved[0], saved[1], gradient);
    return {found.gate_up, found.weights};
  }
};

}  // namespace

at::Tensor WeightedSwiGlu(const at::Tensor& gate_up, const at::Tensor& weights) {
  TRIREME_CHECK(weights.scalar_type() == at::kFloat && weights.size(0) == gate_up.size(0));
  return WeightedSwiGluFunction::apply(gate_up.contiguous(), weights.contiguous());
}

at::Tensor WeightedSwiGluAgain(const at::Tensor& gate_up, const at::Tensor& weights) {
  const at::Tensor x = gate_up.detach().contiguous(), w = weights.detach().contiguous();
  return kWeightedSwiGlu.Choose(x).forward(x, w);
}

Operator operators::weighted_swiglu() {
  return {.name = kWeightedSwiGlu.op(),
          .summary = "silu(gate) · up of an expert's rows, each scaled by its weight",
          .implementations = kWeightedSwiGlu.names(),
          .report = [](const at::Tensor& like) { return std::vector{kWeightedSwiGlu.Report("[any, any]", like)}; },
          .bench =
              [](const BenchSize& s) {
                const at::Tensor x = BenchLeaf({s.rows, 2 * s.columns}, s.type);
                const at::Tensor weights = BenchLeaf({s.rows}, at::kFloat);
                const double bytes = static_cast<double>(x.nbytes());
                return std::vector<BenchCase>{
                    {.forward_bytes = 1.5 * bytes, .backward_bytes = 2.5 * bytes, .input = x, .run = [=] {
                       return BenchCase::Tensors{WeightedSwiGlu(x, weights)};
                     }}};
              }};
}

}  // namespace trireme
