// y = x Wᵀ with another W for each group of rows: grouped GEMMs of experts with unequal batches. Rows
// are sorted by expert; an expert may have none.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/tensor/weight.h"
#include "ops/grouped_linear/row_ends.h"
#include "ops/linear/linear.h"

namespace trireme {

// x: [rows, in], weight: [experts, out, in], which outlives the backward pass. Returns [rows, out].
at::Tensor GroupedLinear(const LinearInput& x, const Weight& weight, const GroupEnds& ends);

// [rows, in] · [experts, in, out]. What rows after the last end get is undefined.
at::Tensor GroupedMatMul(const at::Tensor& x, const at::Tensor& operands, const RowEnds& ends);

// weight.gradient[e] += output_gradientᵀ x over the rows of each expert, immediately, if the weight is
// trained.
void AddGroupedGradient(const Weight& weight, const at::Tensor& output_gradient, const at::Tensor& x,
                        const RowEnds& ends);

}  // namespace trireme
