#include "parallel/sharding/adamw.h"

#include <algorithm>
#include <cmath>

namespace trireme {
namespace {

// On the host what is worked on at once stays in the cache through all passes.
constexpr int64_t kHostChunk = 1 << 16;

void Chunk(at::Tensor master, at::Tensor gradient, at::Tensor exp_avg, at::Tensor exp_avg_sq,
           const AdamWStep& step) {
  const double correction1 = 1 - std::pow(step.beta1, static_cast<double>(step.step));
  const double correction2 = 1 - std::pow(step.beta2, static_cast<double>(step.step));
  if (step.gradient_scale != 1) gradient = gradient.mul(step.gradient_scale);
  if (step.weight_decay != 0) master.mul_(1 - step.learning_rate * step.weight_decay);
  exp_avg.lerp_(gradient, 1 - step.beta1);
  exp_avg_sq.mul_(step.beta2).addcmul_(gradient, gradient, 1 - step.beta2);
  const at::Tensor denominator = exp_avg_sq.sqrt().div_(std::sqrt(correction2)).add_(step.eps);
  master.addcdiv_(exp_avg, denominator, -step.learning_rate / correction1);
}

}  // namespace

void StepAdamW(const AdamWShare& share, const AdamWStep& step) {
  const int64_t elements = share.master.numel();
  const int64_t chunk = share.master.is_cpu() ? kHostChunk : std::max<int64_t>(elements, 1);
  for (int64_t begin = 0; begin < elements; begin += chunk) {
    const auto part = [&](const at::Tensor& flat) {
      return flat.narrow(0, begin, std::min(chunk, elements - begin));
    };
    Chunk(part(share.master), part(share.gradient), part(share.exp_avg), part(share.exp_avg_sq), step);
  }
  if (share.value.defined()) share.value.copy_(share.master);
}

}  // namespace trireme
