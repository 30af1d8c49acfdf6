#include "ops/adamw.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>

#include "core/base/error.h"
#include "ops/ascendc/flat.h"
#include "ops/choose.h"
#include "ops/cpu/flat.h"
#include "ops/kernel_place.h"

namespace trireme {
namespace {

constexpr int64_t kGrain = 32768;

// For the loops and for the kernel alike.
AdamWFactors FactorsOf(const AdamWNumbers& n) {
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

void Reference(const AdamWTensors& t, const AdamWNumbers& n) {
  const double correction1 = 1 - std::pow(n.beta1, static_cast<double>(n.step));
  const double correction2 = 1 - std::pow(n.beta2, static_cast<double>(n.step));
  const at::Tensor gradient = t.gradient * n.gradient_scale;
  t.master.mul_(1 - n.lr * n.weight_decay);
  t.exp_avg.mul_(n.beta1).add_(gradient, 1 - n.beta1);
  t.exp_avg_sq.mul_(n.beta2).addcmul_(gradient, gradient, 1 - n.beta2);
  const at::Tensor denominator = t.exp_avg_sq.sqrt().div_(std::sqrt(correction2)).add_(n.eps);
  t.master.addcdiv_(t.exp_avg, denominator, -n.lr / correction1);
  if (t.parameter.defined()) t.parameter.copy_(t.master);
}

void Kernel(const AdamWTensors& t, const AdamWNumbers& numbers) {
  const at::Tensor& typed = t.parameter.defined() ? t.parameter : t.master;
  ascendc::AdamW(PlaceOf(t.master), ElementOf(typed),
                 {Data<float>(t.master), Data<float>(t.exp_avg), Data<float>(t.exp_avg_sq),
                  Data<float>(t.gradient), t.parameter.defined() ? t.parameter.data_ptr() : nullptr},
                 static_cast<uint64_t>(t.master.numel()), FactorsOf(numbers));
}

Version VersionFor(const AdamWTensors& t) {
  Against against;
  if (t.parameter.defined()) {
    const auto type = t.parameter.scalar_type();
    if (type != at::kFloat && type != at::kBFloat16)
      against.loops = "loops write fp32 and bf16 parameters only";
    against.kernel = WhyNoKernel(t.parameter);
  }
  return Choose("adamw", t.master, against).version;
}

}  // namespace

void AdamW(const AdamWTensors& t, const AdamWNumbers& numbers) {
  TRIREME_CHECK(numbers.step >= 1);
  for (const at::Tensor* tensor : {&t.master, &t.exp_avg, &t.exp_avg_sq, &t.gradient}) {
    TRIREME_CHECK(tensor->scalar_type() == at::kFloat && tensor->is_contiguous());
    TRIREME_CHECK(tensor->numel() == t.master.numel());
  }
  TRIREME_CHECK(!t.parameter.defined() ||
                (t.parameter.numel() == t.master.numel() && t.parameter.is_contiguous()));
  const Version version = VersionFor(t);
  if (version == Version::kKernel) return Kernel(t, numbers);
  if (version != Version::kLoops) return Reference(t, numbers);
  const AdamWFactors factors = FactorsOf(numbers);
  const cpu::AdamWState state{Data<float>(t.master), Data<float>(t.exp_avg), Data<float>(t.exp_avg_sq),
                              Data<float>(t.gradient)};
  at::parallel_for(0, t.master.numel(), kGrain, [&](int64_t begin, int64_t end) {
    if (!t.parameter.defined()) return cpu::AdamW(factors, state, {begin, end});
    ByType(t.parameter, [&](auto type) {
      cpu::AdamW(factors, state, {begin, end}, Data<decltype(type)>(t.parameter));
    });
  });
}

}  // namespace trireme
