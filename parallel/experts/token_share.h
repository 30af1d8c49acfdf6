// Between tensor-parallel blocks ranks hold all tokens or, with sequence parallelism, their share. Experts
// always work on shares, so that no token is processed twice: where ranks hold all tokens, each takes its
// share and gathers the others' results. Each direction beside its adjoint.
#pragma once

#include <ATen/core/Tensor.h>

#include "parallel/tensor/regions.h"

namespace trireme {

// x: [tokens (or this rank's share), size]; returns this rank's share.
at::Tensor TakeShare(const at::Tensor& x, const TensorParallel& parallel);

// The inverse. x: [share, size].
at::Tensor GiveShare(const at::Tensor& x, const TensorParallel& parallel);

// The share of a tensor that needs no gradient, such as a mask: [tokens]. Undefined stays undefined.
at::Tensor ShareOf(const at::Tensor& all, const TensorParallel& parallel);

}  // namespace trireme
