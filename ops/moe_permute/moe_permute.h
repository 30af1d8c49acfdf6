// Sorts tokens by expert and back: a token is copied to each of its positions, and the rows at its
// positions are summed. The two are each other's adjoint; parallel/experts differentiates them. Positions
// are rows of a buffer, given for each token; -1: not dispatched.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme {

// x: [tokens, size]; positions: [tokens, k] int64, each row of [0, rows) listed once; with `gaps` some are
// not, and stay zero. Returns [rows, size].
at::Tensor SpreadRows(const at::Tensor& x, const at::Tensor& positions, int64_t rows, bool gaps = false);

// rows: [copies · R, size]; each position occurs `copies` times, R rows apart. Returns [tokens, size],
// summed in fp32.
at::Tensor SumRows(const at::Tensor& rows, const at::Tensor& positions, int64_t copies = 1);

}  // namespace trireme
