// The numbers of one step of AdamW, for every version of the operator: loops and kernels. No torch.
#pragma once

namespace trireme {

// Includes this step's bias corrections.
struct AdamWFactors {
  float decay;  // 1 - lr · weight_decay
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float step_size;           // lr / (1 - beta1^t)
  float inverse_correction;  // 1 / sqrt(1 - beta2^t)
  float eps;
  float gradient_scale;
};

}  // namespace trireme
