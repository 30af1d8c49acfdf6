// AdamW over flat memory in one pass, with the arithmetic of torch.optim.AdamW: decoupled decay first, bias
// corrections, denominator sqrt(v) / sqrt(1 - beta2^t) + eps. The caller decides which parameters decay, and
// the learning rate.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme {

struct AdamWNumbers {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  int64_t step = 1;           // counted from 1
  double gradient_scale = 1;  // applied to the gradient: clipping, averaging
};

// All contiguous and of one size. Masters and moments are fp32 or bf16: computed in fp32, rounded where they
// are written.
struct AdamWTensors {
  at::Tensor master;
  at::Tensor exp_avg;  // of one type
  at::Tensor exp_avg_sq;
  at::Tensor gradient;   // fp32; is not changed
  at::Tensor parameter;  // gets the new master values in its own type; undefined: there is none
};

void AdamW(const AdamWTensors& tensors, const AdamWNumbers& numbers);

}  // namespace trireme
