// Between tensor-parallel blocks ranks hold all tokens or, with sequence parallelism, their shard. Experts
// always work on shares, so that no token is processed twice: where ranks hold all tokens, each takes its
// shard and gathers the others' results. Each direction beside its adjoint.
#pragma once

#include <ATen/core/Tensor.h>

#include "parallel/tensor/regions.h"

namespace trireme {

// x: [tokens (or this rank's shard), size]; returns this rank's shard.
at::Tensor TakeShard(const at::Tensor& x, const TensorParallel& parallel);

// The inverse. x: [shard, size].
at::Tensor GiveShard(const at::Tensor& x, const TensorParallel& parallel);

// The shard of a tensor that needs no gradient, such as a mask: [tokens]. Undefined stays undefined.
at::Tensor ShardOf(const at::Tensor& all, const TensorParallel& parallel);

}  // namespace trireme
