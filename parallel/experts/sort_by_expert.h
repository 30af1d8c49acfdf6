// SortByExpert: PositionsByExpert (dispatch_plan.h) of choices that are a tensor. On npu and cuda the device
// sorts, so that the host waits for nothing; elsewhere the host does.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace trireme {

struct ByExpert {
  at::Tensor positions;  // as `chosen`; -1 stays -1
  at::Tensor counts;     // [experts] int64 rows per expert, on the device of `chosen`
};

// chosen: [tokens, k] int64; -1 is not dispatched.
ByExpert SortByExpert(const at::Tensor& chosen, int64_t experts);

}  // namespace trireme
