// The norms of a vision tower: RMSNorm, or LayerNorm where there is a bias.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "ops/rms_norm/rms_norm.h"
#include "parallel/layers/weights.h"

namespace trireme {

class AnyNorm {
 public:
  // `role`: its weights are `role`.weight and, of LayerNorm, `role`.bias. The weights outlive it and the backward pass.
  AnyNorm(const Weights& weights, const std::string& role, double eps);
  // x: [any, size]. LayerNorm is computed in fp32 and rounded once.
  at::Tensor Forward(const at::Tensor& x) const;
  // x, for those who add to it later, and its normalised value; and the same of residual + branch.
  AddedNorm Carry(const at::Tensor& x) const;
  AddedNorm Add(const at::Tensor& residual, const at::Tensor& branch) const;

 private:
  const Weight& weight_;
  const Weight* bias_;  // nullptr: RMSNorm
  const double eps_;
};

}  // namespace trireme
