// Grouped matrix products by torch_npu's fused operator. A plain call: ops/grouped_linear/grouped_linear.cc
// has the autograd rule.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme::npu {

// ends: [groups] int64 on the device. Rows up to ends[0] times operands[0], those up to ends[1] times
// operands[1], …: [rows, columns] of [rows, inputs] and [groups, inputs, columns].
at::Tensor GroupedMatMul(const at::Tensor& x, const at::Tensor& operands, const at::Tensor& ends);

// Each group's aᵀ b: [groups, columns of a, columns of b] of two matrices with the same rows. Zeros for a
// group without rows.
at::Tensor GroupedTransposedMatMul(const at::Tensor& a, const at::Tensor& b, const at::Tensor& ends);

}  // namespace trireme::npu
