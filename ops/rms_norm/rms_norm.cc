#include "ops/rms_norm/rms_norm.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/cuda/launch.h"
#include "ops/element_types.h"
#include "ops/kernel_place.h"
#include "ops/operator.h"
#include "ops/partial_sums.h"
#include "ops/rms_norm/ascendc.h"
#include "ops/rms_norm/cpu.h"
#include "ops/rms_norm/npu.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr char kRmsNormName[] = "rms_norm";

// Each version: y and the scales ([..., 1] fp32) of x, or with a branch of x + branch, which goes into `sum`.
struct Normalised {
  at::Tensor sum, y, scale;
};

Normalised ReferenceForwardOfRmsNorm(const at::Tensor& x, const at::Tensor& branch, const Weight& weight, double eps) {
  const at::Tensor sum = branch.defined() ? x + branch : x;
  const at::Tensor wide = sum.to(at::kFloat);
  const at::Tensor scale = wide.square().mean(-1, /*keepdim=*/true).add_(eps).rsqrt_();
  return {sum, (wide * scale).to(x.scalar_type()) * weight.value, scale};
}

Normalised FastForwardOfRmsNorm(const at::Tensor& x, const at::Tensor& branch, const Weight& weight, double eps) {
  const int64_t size = x.size(-1), rows = x.numel() / std::max<int64_t>(size, 1);
  Normalised out{branch.defined() ? at::empty_like(x) : x, at::empty_like(x),
                 at::empty({rows}, x.options().dtype(at::kFloat))};
  ByType(x, [&](auto type) {
    using T = decltype(type);
    const cpu::RmsNormRows<T> in{.x = Data<T>(x),
                                 .branch = branch.defined() ? Data<T>(branch) : nullptr,
                                 .weight = Data<T>(weight.value),
                                 .sum = Data<T>(out.sum),
                                 .y = Data<T>(out.y),
                                 .scale = Data<float>(out.scale),
                                 .size = size,
                                 .eps = static_cast<float>(eps)};
    at::parallel_for(0, rows, GrainOfRows(size),
                     [&](int64_t begin, int64_t end) { cpu::RmsNormForward(in, {begin, end}); });
  });
  return out;
}

Normalised NpuForward(const at::Tensor& x, const at::Tensor& branch, const Weight& weight, double eps) {
  const at::Tensor sum = branch.defined() ? x + branch : x;
  const auto [y, scale] = npu::RmsNorm(sum, weight.value, eps);
  return {sum, y, scale};
}

Normalised KernelForwardOfRmsNorm(const at::Tensor& x, const at::Tensor& branch, const Weight& weight, double eps) {
  const int64_t size = x.size(-1), rows = x.numel() / std::max<int64_t>(size, 1);
  Normalised out{branch.defined() ? at::empty_like(x) : x, at::empty_like(x),
                 at::empty({rows}, x.options().dtype(at::kFloat))};
  ascendc::RmsNormForward(PlaceOf(x), ElementOf(x),
                          {.x = x.data_ptr(),
                           .branch = branch.defined() ? branch.data_ptr() : nullptr,
                           .weight = weight.value.data_ptr(),
                           .sum = out.sum.data_ptr(),
                           .y = out.y.data_ptr(),
                           .scale = Data<float>(out.scale),
                           .rows = static_cast<uint64_t>(rows),
                           .columns = static_cast<uint64_t>(size),
                           .eps = static_cast<float>(eps)});
  return out;
}

Normalised CudaForwardOfRmsNorm(const at::Tensor& x, const at::Tensor& branch, const Weight& weight, double eps) {
  const int64_t size = x.size(-1), rows = x.numel() / std::max<int64_t>(size, 1);
  Normalised out{branch.defined() ? at::empty_like(x) : x, at::empty_like(x),
                 at::empty({rows}, x.options().dtype(at::kFloat))};
  const cuda::RmsNormArgs args{.x = x.data_ptr(),
                               .branch = branch.defined() ? branch.data_ptr() : nullptr,
                               .weight = weight.value.data_ptr(),
                               .sum = out.sum.data_ptr(),
                               .y = out.y.data_ptr(),
                               .scale = Data<float>(out.scale),
                               .rows = rows,
                               .columns = size,
                               .eps = static_cast<float>(eps)};
  CheckLaunch(CudaKernels().rms_norm(args, IsBf16(x), CudaStream()), kRmsNormName);
  return out;
}

// What came in at the forward pass, and the gradients; sum_gradient may be undefined.
struct BackwardInput {
  at::Tensor x, scale, y_gradient, sum_gradient;
};

void AddWeightGradient(const Weight& weight, const at::Tensor& sum) {
  if (!weight.trained()) return;
  at::Tensor gradient = weight.gradient_sum();
  gradient.add_(sum);
}

at::Tensor ReferenceBackwardOfRmsNorm(const BackwardInput& in, const Weight& weight) {
  const at::Tensor normalised = in.x.to(at::kFloat) * in.scale;
  const at::Tensor output_gradient = in.y_gradient.to(at::kFloat);
  AddWeightGradient(weight, (output_gradient * normalised).reshape({-1, weight.value.size(0)}).sum(0));
  const at::Tensor inner = output_gradient * weight.value.to(at::kFloat);
  const at::Tensor shared = (inner * normalised).mean(-1, /*keepdim=*/true);
  at::Tensor result = (inner - normalised * shared) * in.scale;
  if (in.sum_gradient.defined()) result = result + in.sum_gradient.to(at::kFloat);
  return result.to(in.x.scalar_type());
}

at::Tensor FastBackwardOfRmsNorm(const BackwardInput& in, const Weight& weight) {
  const int64_t size = in.x.size(-1), rows = in.x.numel() / std::max<int64_t>(size, 1);
  const at::Tensor result = at::empty_like(in.x);
  const at::Tensor y_gradient = in.y_gradient.contiguous();
  const at::Tensor carried = in.sum_gradient.defined() ? in.sum_gradient.contiguous() : at::Tensor();
  ByType(in.x, [&](auto type) {
    using T = decltype(type);
    const cpu::RmsNormBackwardRows<T> rows_in{.x = Data<T>(in.x),
                                              .weight = Data<T>(weight.value),
                                              .scale = Data<float>(in.scale),
                                              .y_gradient = Data<T>(y_gradient),
                                              .sum_gradient = carried.defined() ? Data<T>(carried) : nullptr,
                                              .x_gradient = Data<T>(result),
                                              .size = size};
    AddWeightGradient(weight, SumOverRows(rows, size, [&](cpu::Rows piece, float* sum) {
                        cpu::RmsNormBackward(rows_in, piece, sum);
                      }));
  });
  return result;
}

at::Tensor NpuBackward(const BackwardInput& in, const Weight& weight) {
  const auto [x, weight_gradient] = npu::RmsNormBackward(in.y_gradient.contiguous(), in.x, weight.value, in.scale);
  AddWeightGradient(weight, weight_gradient);
  return in.sum_gradient.defined() ? x + in.sum_gradient : x;
}

at::Tensor KernelBackwardOfRmsNorm(const BackwardInput& in, const Weight& weight) {
  const int64_t size = in.x.size(-1), rows = in.x.numel() / std::max<int64_t>(size, 1);
  const at::Tensor result = at::empty_like(in.x);
  const at::Tensor y_gradient = in.y_gradient.contiguous();
  const at::Tensor carried = in.sum_gradient.defined() ? in.sum_gradient.contiguous() : at::Tensor();
  const ascendc::KernelPlace place = PlaceOf(in.x);
  const int64_t blocks = ascendc::RmsNormBackwardBlocks(place, static_cast<uint64_t>(rows));
  const at::Tensor sums = at::zeros({blocks, size}, in.scale.options());
  ascendc::RmsNormBackward(place, ElementOf(in.x),
                           {.x = in.x.data_ptr(),
                            .weight = weight.value.data_ptr(),
                            .scale = Data<float>(in.scale),
                            .y_gradient = y_gradient.data_ptr(),
                            .carried = carried.defined() ? carried.data_ptr() : nullptr,
                            .x_gradient = result.data_ptr(),
                            .weight_sums = Data<float>(sums),
                            .rows = static_cast<uint64_t>(rows),
                            .columns = static_cast<uint64_t>(size)});
  AddWeightGradient(weight, sums.sum(0));
  return result;
}

at::Tensor CudaBackwardOfRmsNorm(const BackwardInput& in, const Weight& weight) {
  constexpr int64_t kBlocks = 396;  // three to a multiprocessor of an H200
  const int64_t size = in.x.size(-1), rows = in.x.numel() / std::max<int64_t>(size, 1);
  const at::Tensor result = at::empty_like(in.x);
  const at::Tensor y_gradient = in.y_gradient.contiguous();
  const at::Tensor carried = in.sum_gradient.defined() ? in.sum_gradient.contiguous() : at::Tensor();
  const int64_t blocks = std::clamp<int64_t>(rows, 1, kBlocks);
  const at::Tensor sums = at::empty({blocks, size}, in.scale.options());
  const cuda::RmsNormBackwardArgs args{.x = in.x.data_ptr(),
                                       .weight = weight.value.data_ptr(),
                                       .scale = Data<float>(in.scale),
                                       .y_gradient = y_gradient.data_ptr(),
                                       .carried = carried.defined() ? carried.data_ptr() : nullptr,
                                       .x_gradient = result.data_ptr(),
                                       .weight_sums = Data<float>(sums),
                                       .rows = rows,
                                       .columns = size,
                                       .blocks = static_cast<int>(blocks)};
  CheckLaunch(CudaKernels().rms_norm_backward(args, IsBf16(in.x), CudaStream()), kRmsNormName);
  if (weight.trained()) AddWeightGradient(weight, sums.sum(0));
  return result;
}

struct NormCase {
  const at::Tensor& x;
  const at::Tensor& weight;
};

std::string WhyNotCpuOfRmsNorm(const NormCase& c) { return Either(WhyNoLoops(c.x), WhyNotAlike(c.x, c.weight)); }
std::string WhyNotCudaOfRmsNorm(const NormCase& c) {
  const std::string row = c.x.dim() == 0 ? "" : WhyNoCudaRow(c.x, c.x.size(-1));
  return Either(WhyNoCudaKernel(c.x), Either(WhyNotAlike(c.x, c.weight), row));
}
std::string WhyNotNpuOfRmsNorm(const NormCase& c) { return Either(WhyNoVendor(c.x), WhyNotAlike(c.x, c.weight)); }
std::string WhyNotKernelOfRmsNorm(const NormCase& c) { return Either(WhyNoKernel(c.x), WhyNotAlike(c.x, c.weight)); }

// The backward pass runs what ran forward: their scales differ in shape.
const ImplementationList<NormCase, decltype(&ReferenceForwardOfRmsNorm), decltype(&ReferenceBackwardOfRmsNorm)>
    kRmsNorm{kRmsNormName,
             {{"cpu", WhyNotCpuOfRmsNorm, FastForwardOfRmsNorm, FastBackwardOfRmsNorm},
              {"cuda", WhyNotCudaOfRmsNorm, CudaForwardOfRmsNorm, CudaBackwardOfRmsNorm},
              {"torch_npu", WhyNotNpuOfRmsNorm, NpuForward, NpuBackward},
              {"ascendc", WhyNotKernelOfRmsNorm, KernelForwardOfRmsNorm, KernelBackwardOfRmsNorm},
              {"aten", nullptr, ReferenceForwardOfRmsNorm, ReferenceBackwardOfRmsNorm}}};

struct RmsNormFunction : torch::autograd::Function<RmsNormFunction> {
  // With `carries` the result has x itself beside it, so that the gradient of x is added on the way back.
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const std::optional<at::Tensor>& given,
                               const Weight* weight, double eps, bool carries) {
    const at::Tensor branch = given.value_or(at::Tensor());
    const auto& chosen = kRmsNorm.Choose({x, weight->value});
    const Normalised out = chosen.forward(x, branch, *weight, eps);
    context->save_for_backward({out.sum, out.scale});
    context->saved_data["weight"] = reinterpret_cast<int64_t>(weight);
    context->saved_data["implementation"] = kRmsNorm.IndexOf(chosen);
    context->saved_data["adds"] = branch.defined();
    context->set_materialize_grads(false);
    if (!branch.defined() && !carries) return {out.y};
    return {out.y, branch.defined() ? out.sum : x.view_as(x)};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto* weight = reinterpret_cast<const Weight*>(context->saved_data["weight"].toInt());
    const at::Tensor carried = gradients.size() > 1 ? gradients[1] : at::Tensor();
    at::Tensor result = carried;
    if (gradients[0].defined()) {
      const BackwardInput in{saved[0], saved[1], gradients[0], carried};
      result = kRmsNorm[context->saved_data["implementation"].toInt()].backward(in, *weight);
    }
    const at::Tensor branch = context->saved_data["adds"].toBool() ? result : at::Tensor();
    return {result, branch, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor RmsNorm(const at::Tensor& x, const Weight& weight, double eps) {
  return RmsNormFunction::apply(x.contiguous(), std::optional<at::Tensor>(), &weight, eps,
                                /*carries=*/false)[0];
}

AddedNorm CarriedRmsNorm(const at::Tensor& x, const Weight& weight, double eps) {
  const variable_list out =
      RmsNormFunction::apply(x.contiguous(), std::optional<at::Tensor>(), &weight, eps, /*carries=*/true);
  return {.sum = out[1], .normalised = out[0]};
}

AddedNorm AddRmsNorm(const at::Tensor& residual, const at::Tensor& branch, const Weight& weight, double eps) {
  const variable_list out = RmsNormFunction::apply(
      residual.contiguous(), std::optional<at::Tensor>(branch.contiguous()), &weight, eps, /*carries=*/true);
  return {.sum = out[1], .normalised = out[0]};
}

Operator operators::rms_norm() {
  return {.name = kRmsNorm.op(),
          .summary = "RMSNorm of x, or of x + branch, over the last dim",
          .implementations = kRmsNorm.names(),
          .report = [](const at::Tensor& like) { return std::vector{kRmsNorm.Report("[any, any]", {like, like})}; },
          .bench =
              [](const BenchSize& s) {
                const at::Tensor x = BenchLeaf({s.rows, s.columns}, s.type);
                const auto weight = BenchWeight({s.columns}, s.type);
                const double bytes = static_cast<double>(x.nbytes());
                return std::vector<BenchCase>{
                    {.forward_bytes = 2 * bytes, .backward_bytes = 3 * bytes, .input = x, .run = [=] {
                       return BenchCase::Tensors{RmsNorm(x, *weight, 1e-6)};
                     }}};
              }};
}

}  // namespace trireme
