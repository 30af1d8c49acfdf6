// What a policy loss makes of each token's ratio of new to old probability and of its advantage, with derivatives: the
// same for objectives of a run and for losses that remote clients ask for. Elementwise, in any one floating type. Whose
// probabilities make a ratio, and what terms are divided by, is the caller's.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme {

// Each of the shape of the ratios.
struct TermLoss {
  at::Tensor value;
  at::Tensor by_ratio;     // derivative
  at::Tensor by_log_prob;  // derivative with the ratio held constant
};

struct RatioBounds {
  double low = 0, high = 0;
  double most = 0;  // beyond which a ratio counts as this much, however the advantage is; 0: no bound
};

// -min(r·A, clamp(r)·A), PPO's.
TermLoss ClippedTerm(const at::Tensor& ratios, const at::Tensor& advantages, const RatioBounds& bounds);
// -clamp(r)·A·log p, where the ratio passes no gradient.
TermLoss CispoTerm(const at::Tensor& ratios, const at::Tensor& advantages, const at::Tensor& log_probs,
                   const RatioBounds& bounds);

struct SapoTemperatures {
  double positive = 1, negative = 1;  // by the sign of the advantage
};
TermLoss SapoTerm(const at::Tensor& ratios, const at::Tensor& advantages, const SapoTemperatures& temperatures);

}  // namespace trireme
