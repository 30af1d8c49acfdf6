#include "ops/adamw.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>

#include "core/base/error.h"
#include "ops/choose.h"
#include "ops/cpu/flat.h"

namespace trireme {
namespace {

constexpr int64_t kGrain = 32768;

cpu::AdamWFactors FactorsOf(const AdamWNumbers& n) {
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

}  // namespace

void AdamW(const AdamWTensors& t, const AdamWNumbers& numbers) {
  TRIREME_CHECK(numbers.step >= 1);
  for (const at::Tensor* tensor : {&t.master, &t.exp_avg, &t.exp_avg_sq, &t.gradient}) {
    TRIREME_CHECK(tensor->scalar_type() == at::kFloat && tensor->is_contiguous());
    TRIREME_CHECK(tensor->numel() == t.master.numel());
  }
  TRIREME_CHECK(!t.parameter.defined() ||
                (t.parameter.numel() == t.master.numel() && t.parameter.is_contiguous()));
  if (!FastOnCpu(t.master) || (t.parameter.defined() && !FastOnCpu(t.parameter)))
    return Reference(t, numbers);
  const cpu::AdamWFactors factors = FactorsOf(numbers);
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
