// AdamW on flat tensors: the arithmetic of one step, as torch.optim.AdamW does it. Which elements are decayed
// and at which rate is the caller's business.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace trireme {

struct AdamWStep {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double gradient_scale = 1;  // what clipping leaves
  int64_t step = 1;           // from 1
};

// Flat, contiguous and of one size; fp32 but for the value.
struct AdamWShare {
  at::Tensor master;
  at::Tensor gradient;  // only read
  at::Tensor exp_avg;
  at::Tensor exp_avg_sq;
  at::Tensor value;  // gets the new master in its own type, on its own device; undefined: there is none
};

void StepAdamW(const AdamWShare& share, const AdamWStep& step);

}  // namespace trireme
