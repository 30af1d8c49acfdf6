// The borders of a tensor-parallel block, each collective beside its adjoint. Between Enter and Leave every
// rank sees all tokens and works on its part of the heads or of the hidden units; outside it holds whole
// tokens: all of them, or with sequence parallelism its share.
//
//   sequence parallel   Enter: all-gather tokens      its adjoint: reduce-scatter
//                       Leave: reduce-scatter tokens  its adjoint: all-gather
//   otherwise           Enter: nothing                its adjoint: all-reduce
//                       Leave: all-reduce             its adjoint: nothing
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

// x: [tokens (or this rank's share), hidden]; the result has all tokens.
at::Tensor Enter(const at::Tensor& x, const TensorParallel& parallel);

// x: [tokens, hidden], this rank's part of a sum; the result is the sum (or this rank's share of its tokens).
at::Tensor Leave(const at::Tensor& x, const TensorParallel& parallel);

}  // namespace trireme
