// y = x / sqrt(mean(x²) + eps) · weight over the last dim, computed in fp32; the normalised value is rounded
// before the weight is applied, as in transformers.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/tensor/weight.h"

namespace trireme {

// x: [..., size], weight: [size]. The weight outlives the backward pass.
at::Tensor RmsNorm(const at::Tensor& x, const Weight& weight, double eps);

// The residual stream and its normalised value in one pass; backward also adds the stream's gradient.
struct AddedNorm {
  at::Tensor sum;         // residual + branch
  at::Tensor normalised;  // RmsNorm(sum)
};
// The same without a branch: `sum` is x, for those who add to it later.
AddedNorm CarriedRmsNorm(const at::Tensor& x, const Weight& weight, double eps);
AddedNorm AddRmsNorm(const at::Tensor& residual, const at::Tensor& branch, const Weight& weight, double eps);

}  // namespace trireme
