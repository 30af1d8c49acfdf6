// The optimizers sgd and sgd_momentum, with the arithmetic of torch.optim.SGD: weight decay is added to the gradient.
#include <ATen/ATen.h>

#include "parallel/sharding/update_rule.h"
#include "parallel/sharding/wide_master.h"

namespace trireme {
namespace {

at::Tensor DecayedGradient(const UpdateTensors& tensors, const at::Tensor& master, const UpdateNumbers& numbers) {
  return (tensors.gradient * numbers.gradient_scale).add_(master, numbers.weight_decay);
}

}  // namespace

void UpdateSgd(const UpdateTensors& tensors, const UpdateNumbers& numbers) {
  const WideMaster master(tensors);
  at::Tensor(master.values()).sub_(DecayedGradient(tensors, master.values(), numbers), numbers.lr);
  master.Store();
}

void UpdateSgdMomentum(const UpdateTensors& tensors, const UpdateNumbers& numbers) {
  const WideMaster master(tensors);
  const at::Tensor direction = tensors.states[0].to(at::kFloat);  // itself where it is fp32
  direction.mul_(numbers.momentum).add_(DecayedGradient(tensors, master.values(), numbers));
  if (!direction.is_same(tensors.states[0])) at::Tensor(tensors.states[0]).copy_(direction);
  at::Tensor(master.values()).sub_(direction, numbers.lr);
  master.Store();
}

}  // namespace trireme
