#include "ops/swiglu/swiglu.h"

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/cuda/launch.h"
#include "ops/element_types.h"
#include "ops/kernel_place.h"
#include "ops/operator.h"
#include "ops/swiglu/ascendc.h"
#include "ops/swiglu/cpu.h"
#include "ops/swiglu/npu.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor ReferenceForwardOfSwiglu(const at::Tensor& gate_up) {
  const auto halves = gate_up.chunk(2, -1);
  return at::silu(halves[0]) * halves[1];
}

at::Tensor ReferenceBackwardOfSwiglu(const at::Tensor& gate_up, const at::Tensor& gradient) {
  const auto halves = gate_up.chunk(2, -1);
  const at::Tensor gate_gradient = at::silu_backward(gradient * halves[1], halves[0]);
  return at::cat({gate_gradient, gradient * at::silu(halves[0])}, -1);
}

at::Tensor FastForwardOfSwiglu(const at::Tensor& gate_up) {
  const int64_t rows = gate_up.size(0), ffn = gate_up.size(1) / 2;
  const at::Tensor out = at::empty({rows, ffn}, gate_up.options());
  ByType(gate_up, [&](auto type) {
    using T = decltype(type);
    at::parallel_for(0, rows, GrainOfRows(ffn), [&](int64_t begin, int64_t end) {
      cpu::SwiGluForward(Data<T>(gate_up), ffn, {begin, end}, Data<T>(out));
    });
  });
  return out;
}

at::Tensor FastBackwardOfSwiglu(const at::Tensor& gate_up, const at::Tensor& gradient) {
  const int64_t rows = gate_up.size(0), ffn = gate_up.size(1) / 2;
  const at::Tensor out = at::empty_like(gate_up);
  ByType(gate_up, [&](auto type) {
    using T = decltype(type);
    at::parallel_for(0, rows, GrainOfRows(ffn), [&](int64_t begin, int64_t end) {
      cpu::SwiGluBackward(Data<T>(gate_up), Data<T>(gradient), ffn, {begin, end}, Data<T>(out));
    });
  });
  return out;
}

at::Tensor CudaForwardOfSwiglu(const at::Tensor& gate_up) {
  const int64_t rows = gate_up.size(0), ffn = gate_up.size(1) / 2;
  const at::Tensor out = at::empty({rows, ffn}, gate_up.options());
  CheckLaunch(CudaKernels().swiglu(gate_up.data_ptr(), out.data_ptr(), rows, ffn, IsBf16(gate_up), CudaStream()),
              "swiglu");
  return out;
}

at::Tensor CudaBackwardOfSwiglu(const at::Tensor& gate_up, const at::Tensor& gradient) {
  const int64_t rows = gate_up.size(0), ffn = gate_up.size(1) / 2;
  const at::Tensor out = at::empty_like(gate_up);
  CheckLaunch(CudaKernels().swiglu_backward(gate_up.data_ptr(), gradient.data_ptr(), out.data_ptr(), rows, ffn,
                                            IsBf16(gate_up), CudaStream()),
              "swiglu");
  return out;
}

at::Tensor KernelForwardOfSwiglu(const at::Tensor& gate_up) {
  const int64_t rows = gate_up.size(0), ffn = gate_up.size(1) / 2;
  const at::Tensor out = at::empty({rows, ffn}, gate_up.options());
  ascendc::SwigluForward(PlaceOf(gate_up), ElementOf(gate_up), gate_up.data_ptr(), static_cast<uint64_t>(rows),
                         static_cast<uint64_t>(ffn), out.data_ptr());
  return out;
}

at::Tensor KernelBackwardOfSwiglu(const at::Tensor& gate_up, const at::Tensor& gradient) {
  const int64_t rows = gate_up.size(0), ffn = gate_up.size(1) / 2;
  const at::Tensor out = at::empty_like(gate_up);
  ascendc::SwigluBackward(PlaceOf(gate_up), ElementOf(gate_up), gate_up.data_ptr(), gradient.data_ptr(),
                          static_cast<uint64_t>(rows), static_cast<uint64_t>(ffn), out.data_ptr());
  return out;
}

at::Tensor VendorBackward(const at::Tensor& gate_up, const at::Tensor& gradient) {
  return npu::SwiGluBackward(gradient, gate_up);
}

const ImplementationList<at::Tensor, decltype(&ReferenceForwardOfSwiglu), decltype(&ReferenceBackwardOfSwiglu)> kSwiGlu{
    "swiglu",
    {{"cpu", WhyNoLoops, FastForwardOfSwiglu, FastBackwardOfSwiglu},
     {"cuda", WhyNoCudaKernel, CudaForwardOfSwiglu, CudaBackwardOfSwiglu},
     {"torch_npu", WhyNoVendor, npu::SwiGlu, VendorBackward},
     {"ascendc", WhyNoKernel, KernelForwardOfSwiglu, KernelBackwardOfSwiglu},
     {"aten", nullptr, ReferenceForwardOfSwiglu, ReferenceBackwardOfSwiglu}}};

// silu(gate) is recomputed in the backward pass: cheaper than saving it for every layer.
struct SwiGluFunction : torch::autograd::Function<SwiGluFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate_up) {
    context->save_for_backward({gate_up});
    return kSwiGlu.Choose(gate_up).forward(gate_up);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor gate_up = context->get_saved_variables()[0], gradient = gradients[0].contiguous();
    return {kSwiGlu.Choose(gate_up).backward(gate_up, gradient)};
  }
};

}  // namespace

at::Tensor SwiGlu(const at::Tensor& gate_up) { return SwiGluFunction::apply(gate_up.contiguous()); }

Operator operators::swiglu() {
  return {.name = kSwiGlu.op(),
          .summary = "silu(gate) · up of a fused gate|up",
          .implementations = kSwiGlu.names(),
          .report = [](const at::Tensor& like) { return std::vector{kSwiGlu.Report("[any, any]", like)}; },
          .bench =
              [](const BenchSize& s) {
                const at::Tensor x = BenchLeaf({s.rows, 2 * s.columns}, s.type);
                const double bytes = static_cast<double>(x.nbytes());
                return std::vector<BenchCase>{
                    {.forward_bytes = 1.5 * bytes, .backward_bytes = 2.5 * bytes, .input = x, .run = [=] {
                       return BenchCase::Tensors{SwiGlu(x)};
                     }}};
              }};
}

}  // namespace trireme
