// Grouped matrix products by torch_npu's fused operator. A plain call: ops/grouped_linear/grouped_linear.cc
// has the autograd rule.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace trireme::npu {

// Rows up to ends[0] times operands[0], those up to ends[1] times operands[1], …: [rows, columns] of
// [rows, inputs] and [groups, inputs, columns].
at::Tensor GroupedMatMul(const at::Tensor& x, const at::Tensor& operands, const std::vector<int64_t>& ends);

}  // namespace trireme::npu
