#include "ops/linear/linear.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>

#include "ops/dequantise/dequantise.h"
#include "ops/element_types.h"
#include "ops/fp8_linear/fp8_linear.h"
#include "ops/linear/row_bias.h"
#include "ops/matmul.h"
#include "ops/operator.h"
#include "ops/weight_gradients.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void AddBiasGradient(const Weight& bias, const at::Tensor& output_gradient) {
  if (!bias.trained()) return;
  at::Tensor sum = bias.gradient_sum();
  AddSumOfRows(output_gradient, sum);
}

at::Tensor ValueOf(const Weight* bias) { return bias == nullptr ? at::Tensor() : bias->value; }

struct SavedLinear : torch::CustomClassHolder {
  const Weight *weight, *bias;
  std::function<at::Tensor()> again;
  const SplitContraction* split;
  at::Tensor fp8_scales;  // of the weight, if its products are in e4m3
};

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const LinearInput& input,
                            const Weight* weight, const Weight* bias) {
    auto saved = c10::make_intrusive<SavedLinear>();
    saved->weight = weight;
    saved->bias = bias;
    saved->again = input.again;
    saved->split = input.split;
    // A frozen weight does not need the input.
    if (weight->trained() && !input.again) context->save_for_backward({x});
    context->saved_data["saved"] = c10::IValue::make_capsule(saved);
    const LinearInput whole(x, {}, input.split);
    if (!IsFp8(*weight)) return ProductOf(whole, *weight, bias);
    const Fp8Matrix matrix = Fp8MatrixOf(*weight, input.split);
    saved->fp8_scales = matrix.scales;
    return Fp8Linear(x, matrix, ValueOf(bias), input.split);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor output_gradient = gradients[0].contiguous();
    const variable_list saved_tensors = context->get_saved_variables();
    const auto holder = context->saved_data["saved"].toCapsule();
    auto* saved = static_cast<SavedLinear*>(holder.get());
    const Weight *weight = saved->weight, *bias = saved->bias;
    at::Tensor input_gradient =
        IsFp8(*weight) ? Fp8InputGradient(output_gradient, Fp8MatrixAgain(*weight, saved->fp8_scales), saved->split)
                       : InputGradientOf(output_gradient, *weight, saved->split);
    const at::Tensor x = saved_tensors.empty() ? at::Tensor() : saved_tensors[0];
    WeightGradients::Add([weight, bias, output_gradient, x, again = std::move(saved->again)] {
      if (weight->trained()) AddWeightGradient(*weight, output_gradient, again ? again() : x);
      if (bias != nullptr) AddBiasGradient(*bias, output_gradient);
    });
    return {input_gradient, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

// sum (+)= output_gradientᵀ x
struct GradientMatMul {
  at::Tensor sum;  // [out, in] fp32
  const at::Tensor& output_gradient;
  const at::Tensor& x;
};

// The gemm itself accumulates in fp32: no intermediate rounding, and no separate pass for the sum.
void FastGradientOfLinear(const GradientMatMul& p, bool add) {
  MatMul(Operand<cpu::Bf16>{Data<cpu::Bf16>(p.output_gradient), p.output_gradient.size(1), true},
         Operand<cpu::Bf16>{Data<cpu::Bf16>(p.x), p.x.size(1)},
         {.m = p.sum.size(0), .n = p.sum.size(1), .k = p.x.size(0), .stride = p.sum.size(1), .add = add},
         Data<float>(p.sum));
}

// ATen's product of bf16 operands that adds into fp32 (torch 2.9 and later), called by name: the older torch
// compiles this file, too.
using WideProduct = at::Tensor&(const at::Tensor&, const at::Tensor&, const at::Tensor&, at::ScalarType,
                                const at::Scalar&, const at::Scalar&, at::Tensor&);
const std::optional<c10::TypedOperatorHandle<WideProduct>>& FindWideProduct() {
  static const auto found = [] {
    std::optional<c10::TypedOperatorHandle<WideProduct>> typed;
    const auto schema = c10::Dispatcher::singleton().findSchema({"aten::addmm", "dtype_out"});
    if (schema) typed.emplace(schema->typed<WideProduct>());
    return typed;
  }();
  return found;
}

void CudaGradientOfLinear(const GradientMatMul& p, bool add) {
  at::Tensor sum = p.sum;
  FindWideProduct()->call(sum, p.output_gradient.t(), p.x, at::kFloat, add ? 1 : 0, 1, sum);
}

void ReferenceGradientOfLinear(const GradientMatMul& p, bool add) {
  at::Tensor sum = p.sum;
  if (p.x.scalar_type() == at::kFloat) {
    sum.addmm_(p.output_gradient.t(), p.x, /*beta=*/add ? 1 : 0);
    return;
  }
  const at::Tensor matmul = at::mm(p.output_gradient.t(), p.x);
  if (add) {
    sum.add_(matmul);
  } else {
    sum.copy_(matmul);
  }
}

std::string WhyNotFast(const GradientMatMul& p) {
  if (p.x.scalar_type() == at::kFloat) return "ATen's fp32 matmul accumulates in place";
  const bool dense = p.x.is_contiguous() && p.output_gradient.is_contiguous() && p.sum.is_contiguous();
  return Either(WhyNoLoops(p.x), dense ? "" : "a matrix is strided");
}

std::string WhyNotCudaOfLinear(const GradientMatMul& p) {
  if (!p.x.is_cuda()) return "cuBLAS is for a GPU";
  if (p.x.scalar_type() != at::kBFloat16) return "ATen's product of fp32 sums in place";
  return FindWideProduct() ? "" : "this torch has no product of bf16 that adds into fp32; 2.9 and later have";
}

const ImplementationList<GradientMatMul, decltype(&ReferenceGradientOfLinear)> kWeightGradient{
    "weight_gradient",
    {{"cpu", WhyNotFast, FastGradientOfLinear},
     {"cublas", WhyNotCudaOfLinear, CudaGradientOfLinear},
     {"aten", nullptr, ReferenceGradientOfLinear}}};

// A square matrix.
std::vector<BenchCase> BenchWeightGradient(const BenchSize& s) {
  const int64_t width = std::min<int64_t>(s.columns, 1024);
  const auto weight = BenchWeight({width, width}, s.type);
  const at::Tensor x = BenchInput({s.rows, width}, s.type), gradient = BenchInput({s.rows, width}, s.type);
  return {{.forward_bytes = static_cast<double>(x.nbytes() + gradient.nbytes() + 2 * weight->gradient.nbytes()),
           .run =
               [=] {
                 AddWeightGradient(*weight, gradient, x);
                 return BenchCase::Tensors{};
               },
           .shape = {s.rows, width, width},
           .gradient = true}};
}

}  // namespace

Operator operators::weight_gradient() {
  return {
      .name = kWeightGradient.op(),
      .summary = "a linear layer's weight gradient, added to its fp32 sum",
      .implementations = kWeightGradient.names(),
      .report =
          [](const at::Tensor& like) { return std::vector{kWeightGradient.Report("[any, any]", {like, like, like})}; },
      .bench = BenchWeightGradient};
}

void AddWeightGradient(const Weight& weight, const at::Tensor& output_gradient, const at::Tensor& x) {
  if (!weight.trained()) return;
  const bool add = !weight.TakeStale();
  const at::Tensor& sum = weight.gradient;  // of patches it has the shape of a convolution
  const GradientMatMul matmul{sum.dim() == 2 ? sum : sum.view({sum.size(0), -1}), output_gradient, x};
  kWeightGradient.Choose(matmul).forward(matmul, add);
}

at::Tensor ProductOf(const LinearInput& x, const Weight& weight, const Weight* bias) {
  if (IsFp8(weight)) return Fp8Linear(x.value, Fp8MatrixOf(weight, x.split), ValueOf(bias), x.split);
  if (bias == nullptr) return at::mm(x.value, MatrixOf(weight).t());
  return ProductWithBias(x.value, MatrixOf(weight), bias->value);
}

at::Tensor InputGradientOf(const at::Tensor& output_gradient, const Weight& weight, const SplitContraction* split) {
  if (IsFp8(weight)) return Fp8InputGradient(output_gradient, Fp8MatrixOf(weight, split), split);
  return at::mm(output_gradient, MatrixOf(weight));
}

at::Tensor Linear(const LinearInput& x, const Weight& weight, const Weight* bias) {
  return LinearFunction::apply(x.value, x, &weight, bias);
}

}  // namespace trireme
