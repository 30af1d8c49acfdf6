// Collectives on tensors, in the order of the computation: when a call returns, what follows may use the
// result. No autograd here; regions.h puts each beside its adjoint.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/comm/communicator.h"

namespace trireme {

// In place; the tensor is contiguous.
void AllReduce(const at::Tensor& tensor, Communicator& group, ReduceOp op = ReduceOp::kSum);

// Dim 0 of all ranks, one after the other in the group's order.
at::Tensor AllGatherRows(const at::Tensor& rows, Communicator& group);

// The sum over the group, of which each rank keeps its share of dim 0; the group's size divides that dim.
at::Tensor ReduceScatterRows(const at::Tensor& rows, Communicator& group);

}  // namespace trireme
