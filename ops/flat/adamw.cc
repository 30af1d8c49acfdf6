#include "ops/flat/adamw.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>

#include "core/base/error.h"
#include "ops/cuda/launch.h"
#include "ops/element_types.h"
#include "ops/flat/ascendc.h"
#include "ops/flat/cpu.h"
#include "ops/flat/split_master.h"
#include "ops/kernel_place.h"
#include "ops/operator.h"

namespace trireme {
namespace {

constexpr int64_t kGrain = 32768;

bool IsSplit(const AdamWTensors& t) { return t.master.scalar_type() == at::kShort; }

// For the loops and for the kernel alike.
AdamWFactors FactorsOf(const UpdateNumbers& n) {
  const double correction1 = 1 - std::pow(n.beta1, static_cast<double>(n.step));
  const double correction2 = 1 - std::pow(n.beta2, static_cast<double>(n.step));
  return {.decay = static_cast<float>(1 - n.lr * n.weight_decay),
          .beta1 = static_cast<float>(n.beta1),
          .one_minus_beta1 = static_cast<float>(1 - n.beta1),
          .beta2 = static_cast<float>(n.beta2),
          .one_minus_beta2 = static_cast<float>(1 - n.beta2),
          .step_size = static_cast<float>(n.lr / correction1),
          .inverse_correction = static_cast<float>(1 / std::sqrt(correction2)),
          .eps = static_cast<float>(n.eps),
          .gradient_scale = static_cast<float>(n.gradient_scale)};
}

void ReferenceOfAdamw(const AdamWTensors& t, const UpdateNumbers& n) {
  const double correction1 = 1 - std::pow(n.beta1, static_cast<double>(n.step));
  const double correction2 = 1 - std::pow(n.beta2, static_cast<double>(n.step));
  const at::Tensor gradient = t.gradient * n.gradient_scale;
  // Themselves where they are fp32.
  const at::Tensor master = IsSplit(t) ? JoinMaster(t.parameter, t.master) : t.master.to(at::kFloat),
                   mean = t.exp_avg.to(at::kFloat), square = t.exp_avg_sq.to(at::kFloat);
  master.mul_(1 - n.lr * n.weight_decay);
  mean.mul_(n.beta1).add_(gradient, 1 - n.beta1);
  square.mul_(n.beta2).addcmul_(gradient, gradient, 1 - n.beta2);
  const at::Tensor denominator = square.sqrt().div_(std::sqrt(correction2)).add_(n.eps);
  master.addcdiv_(mean, denominator, -n.lr / correction1);
  if (IsSplit(t)) {
    SplitMaster(master, t.parameter, t.master);
  } else if (t.parameter.defined()) {
    t.parameter.copy_(master);
  }
  for (const auto& [saved, computed] : {std::pair(t.master, master), {t.exp_avg, mean}, {t.exp_avg_sq, square}}) {
    const bool split = saved.scalar_type() == at::kShort;
    if (!split && !saved.is_same(computed)) saved.copy_(computed);
  }
}

void AdamwByCuda(const AdamWTensors& t, const UpdateNumbers& numbers) {
  const cuda::AdamWArgs args{.master = t.master.data_ptr(),
                             .exp_avg = t.exp_avg.data_ptr(),
                             .exp_avg_sq = t.exp_avg_sq.data_ptr(),
                             .gradient = Data<float>(t.gradient),
                             .parameter = t.parameter.defined() ? t.parameter.data_ptr() : nullptr,
                             .size = t.master.numel(),
                             .master_bf16 = IsBf16(t.master),
                             .moments_bf16 = IsBf16(t.exp_avg),
                             .parameter_bf16 = t.parameter.defined() && IsBf16(t.parameter),
                             .master_split = IsSplit(t),
                             .factors = FactorsOf(numbers)};
  CheckLaunch(CudaKernels().adamw(args, CudaStream()), "adamw");
}

void KernelOfAdamw(const AdamWTensors& t, const UpdateNumbers& numbers) {
  const at::Tensor& typed = t.parameter.defined() ? t.parameter : t.master;
  ascendc::AdamW(PlaceOf(t.master), ElementOf(typed),
                 {Data<float>(t.master), Data<float>(t.exp_avg), Data<float>(t.exp_avg_sq), Data<float>(t.gradient),
                  t.parameter.defined() ? t.parameter.data_ptr() : nullptr},
                 static_cast<uint64_t>(t.master.numel()), FactorsOf(numbers));
}

void LoopsOfAdamw(const AdamWTensors& t, const UpdateNumbers& numbers) {
  const AdamWFactors factors = FactorsOf(numbers);
  const cpu::AdamWState state{Data<float>(t.master), Data<float>(t.exp_avg), Data<float>(t.exp_avg_sq),
                              Data<float>(t.gradient)};
  at::parallel_for(0, t.master.numel(), kGrain, [&](int64_t begin, int64_t end) {
    if (!t.parameter.defined()) return cpu::AdamW(factors, state, {begin, end});
    ByType(t.parameter,
           [&](auto type) { cpu::AdamW(factors, state, {begin, end}, Data<decltype(type)>(t.parameter)); });
  });
}

// What is written decides; the loops and the kernel of AscendC keep all else in fp32.
const at::Tensor& Written(const AdamWTensors& t) { return t.parameter.defined() ? t.parameter : t.master; }
std::string WhyNarrow(const AdamWTensors& t) {
  const bool wide = t.master.scalar_type() == at::kFloat && t.exp_avg.scalar_type() == at::kFloat;
  return wide ? "" : "masters or moments are not fp32";
}
std::string WhyNotLoopsOfAdamw(const AdamWTensors& t) {
  return Either(WhyNarrow(t), Either(WhyNoLoops(t.master), WhyNoLoops(Written(t))));
}
std::string WhyNotCudaOfAdamw(const AdamWTensors& t) {
  const std::string of_master = IsSplit(t) ? "" : WhyNoCudaKernel(t.master);
  return Either(of_master, Either(WhyNoCudaKernel(t.exp_avg), WhyNoCudaKernel(Written(t))));
}
std::string WhyNotKernelOfAdamw(const AdamWTensors& t) {
  return Either(WhyNarrow(t), Either(WhyNoKernel(t.master), WhyNoKernel(Written(t))));
}

const ImplementationList<AdamWTensors, decltype(&ReferenceOfAdamw)> kAdamW{
    "adamw",
    {{"cpu", WhyNotLoopsOfAdamw, LoopsOfAdamw},
     {"cuda", WhyNotCudaOfAdamw, AdamwByCuda},
     {"ascendc", WhyNotKernelOfAdamw, KernelOfAdamw},
     {"aten", nullptr, ReferenceOfAdamw}}};

// Compared with ATen's own fused AdamW.
std::vector<BenchCase> BenchAdamW(const BenchSize& s) {
  using Tensors = BenchCase::Tensors;
  const int64_t n = s.rows * s.columns;
  const AdamWTensors t{BenchInput({n}, at::kFloat), at::zeros({n}), at::zeros({n}), BenchInput({n}, at::kFloat),
                       BenchInput({n}, s.type)};
  const auto ours = [=] {
    AdamW(t, {});
    return Tensors{};
  };
  const auto fused = [=] {
    Tensors master{t.master}, gradient{t.gradient}, m{t.exp_avg}, v{t.exp_avg_sq};
    at::_fused_adamw_(master, gradient, m, v, {}, {at::tensor(1.0f)}, 1e-3, 0.9, 0.999, 0.01, 1e-8,
                      /*amsgrad=*/false, /*maximize=*/false);
    t.parameter.copy_(t.master);
    return Tensors{};
  };
  return {{.forward_bytes = static_cast<double>(n) * (28.0 + static_cast<double>(t.parameter.element_size())),
           .run = ours,
           .aten = fused}};
}

}  // namespace

void AdamW(const AdamWTensors& t, const UpdateNumbers& numbers) {
  TRIREME_CHECK(numbers.step >= 1);
  TRIREME_CHECK(t.gradient.scalar_type() == at::kFloat);
  TRIREME_CHECK(t.exp_avg.scalar_type() == t.exp_avg_sq.scalar_type());
  for (const at::Tensor* tensor : {&t.master, &t.exp_avg, &t.exp_avg_sq, &t.gradient}) {
    TRIREME_CHECK(tensor->is_contiguous() && tensor->numel() == t.master.numel());
  }
  TRIREME_CHECK(!IsSplit(t) || (t.parameter.defined() && t.parameter.scalar_type() == at::kBFloat16));
  TRIREME_CHECK(!t.parameter.defined() || (t.parameter.numel() == t.master.numel() && t.parameter.is_contiguous()));
  kAdamW.Choose(t).forward(t, numbers);
}

Operator operators::adamw() {
  return {.name = kAdamW.op(),
          .summary = "an AdamW step over flat memory, written in fp32 and in the parameter's dtype",
          .implementations = kAdamW.names(),
          .report =
              [](const at::Tensor& like) {
                const at::Tensor state = like.to(at::kFloat);
                return std::vector{kAdamW.Report("[any]", {state, state, state, state, like})};
              },
          .bench = BenchAdamW};
}

}  // namespace trireme
