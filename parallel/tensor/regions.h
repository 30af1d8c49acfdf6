// The boundaries of a tensor-parallel block, each collective beside its adjoint. Between GatherToTensorRegion
// and ReduceFromTensorRegion every rank sees all tokens and computes its part of the heads or of the hidden
// units; outside it holds full hidden states: of all tokens or, with sequence parallelism, of its share.
//
//   sequence parallel   GatherToTensorRegion:   all-gather tokens       its adjoint: reduce-scatter
//                       ReduceFromTensorRegion: reduce-scatter tokens   its adjoint: all-gather
//   otherwise           GatherToTensorRegion:   nothing                 its adjoint: all-reduce
//                       ReduceFromTensorRegion: all-reduce              its adjoint: nothing
#pragma once

#include <ATen/core/Tensor.h>

#include "core/comm/communicator.h"

namespace trireme {

struct TensorParallel {
  Communicator& group;
  bool sequence = true;

  int size() const { return group.size(); }
  int rank() const { return group.rank(); }
};

// x: [tokens (or this rank's share), hidden]; returns all tokens.
at::Tensor GatherToTensorRegion(const at::Tensor& x, const TensorParallel& parallel);

// x: [tokens, hidden], this rank's partial sum; returns the sum (or this rank's share of its tokens).
at::Tensor ReduceFromTensorRegion(const at::Tensor& x, const TensorParallel& parallel);

}  // namespace trireme
