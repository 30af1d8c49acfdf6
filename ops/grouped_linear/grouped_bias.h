// Adds to each row the bias of its expert: what follows a grouped GEMM (grouped_linear.h) where experts have biases.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/tensor/weight.h"
#include "ops/grouped_linear/row_ends.h"

namespace trireme {

// y: [rows, out], bias: [experts, out], which outlives the backward pass.
at::Tensor AddGroupedBias(const at::Tensor& y, const Weight& bias, const GroupEnds& ends);

// The same with each row's bias scaled by weights: [rows] fp32, which get a gradient. Where y is a partial sum over
// several ranks, one of them `adds`; the bias's gradient is that of the full sum on each.
at::Tensor AddWeightedGroupedBias(const at::Tensor& y, const at::Tensor& weights, const Weight& bias,
                                  const GroupEnds& ends, bool adds);

}  // namespace trireme
