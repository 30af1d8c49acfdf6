// The numbers of one optimizer update, whatever the rule.
#pragma once

#include <cstdint>

namespace trireme {

struct UpdateNumbers {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double momentum = 0;  // of sgd_momentum and muon
  double weight_decay = 0.01;
  int64_t step = 1;           // counted from 1
  double gradient_scale = 1;  // applied to the gradient: clipping, averaging
};

}  // namespace trireme
