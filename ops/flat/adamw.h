// AdamW over flat memory in one pass, with the arithmetic of torch.optim.AdamW: decoupled decay first, bias
// corrections, denominator sqrt(v) / sqrt(1 - beta2^t) + eps. The caller decides which parameters decay, and
// the learning rate.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/flat/update_numbers.h"

namespace trireme {

// All contiguous and of one size. Masters and moments are fp32 or bf16: computed in fp32, rounded where they
// are written.
struct AdamWTensors {
  at::Tensor master;   // or int16: the low halves of masters whose high halves are the bf16 parameter (split_master.h)
  at::Tensor exp_avg;  // of one type
  at::Tensor exp_avg_sq;
  at::Tensor gradient;   // fp32; is not changed
  at::Tensor parameter;  // gets the new master values in its own type; undefined: there is none
};

void AdamW(const AdamWTensors& tensors, const UpdateNumbers& numbers);

}  // namespace trireme
