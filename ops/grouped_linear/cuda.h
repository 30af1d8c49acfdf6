// Grouped products on a GPU: all experts in one launch, by ATen's operator for them (torch 2.8 and later,
// Hopper and later). Plain calls: ops/grouped_linear/grouped_linear.cc has the autograd rule.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "ops/grouped_linear/row_ends.h"

namespace trireme::cuda {

std::string WhyNotGrouped(const at::Tensor& x);
// Whether every row of these matrices, [experts, rows, columns] or transposed, is a multiple of 16 bytes.
bool AreWide(const at::Tensor& matrices);

// [rows, in] · [experts, in, out], which may be a transposed view.
at::Tensor GroupedMatMul(const at::Tensor& x, const at::Tensor& operands, const RowEnds& ends);

// sum[e] (+)= output_gradientᵀ x over the rows of each expert; sum: [experts, out, in] fp32, an expert's part of it
// contiguous, the experts maybe apart. On Hopper the products are added in fp32; elsewhere they are rounded to bf16
// before.
void AddGroupedGradient(const at::Tensor& sum, const at::Tensor& output_gradient, const at::Tensor& x,
                        const RowEnds& ends, bool add);

}  // namespace trireme::cuda
