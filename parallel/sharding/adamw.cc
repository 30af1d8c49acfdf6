// The optimizer adamw, with the arithmetic of torch.optim.AdamW: the fused operator on every run of elements.
#include "ops/flat/adamw.h"
#include "parallel/sharding/update_rule.h"

namespace trireme {

void UpdateAdamW(const UpdateTensors& tensors, const UpdateNumbers& numbers) {
  AdamW({.master = tensors.master,
         .exp_avg = tensors.states[0],
         .exp_avg_sq = tensors.states[1],
         .gradient = tensors.gradient,
         .parameter = tensors.parameter},
        numbers);
}

}  // namespace trireme
